// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/review/input"
)

// A Webhook is a webhook of a configuration, with the API's defaults.
type Webhook struct {
	admissionregistrationv1.MutatingWebhook
	// Document is its configuration, Index its position in it, Mutating reports which kind that is.
	Document input.Document
	Index    int
	Mutating bool
	// Stated is the webhook without defaults.
	Stated admissionregistrationv1.MutatingWebhook

	conditions *expression.Conditions
	index      *matching.Index[*matching.Candidate]
}

// Path returns the JSON pointer of the webhook in its configuration, and of a field below.
func (w *Webhook) Path(field string) string { return "/webhooks/" + strconv.Itoa(w.Index) + field }

// Fails reports whether a request is refused if the webhook can't be asked.
func (w *Webhook) Fails() bool { return *w.FailurePolicy == admissionregistrationv1.Fail }

// Configuration returns the name of the webhook's configuration.
func (w *Webhook) Configuration() string { return w.Document.Object.GetName() }

func (i *Inventory) addWebhooks(d input.Document) error {
	older := d.Object.GetAPIVersion() != admissionregistrationv1.SchemeGroupVersion.String()
	return decodeStrict(d.Object, i.Complete || older, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
		for n := range c.Webhooks {
			w := &Webhook{MutatingWebhook: *c.Webhooks[n].DeepCopy(), Document: d, Index: n,
				Mutating: d.Object.GetKind() == "MutatingWebhookConfiguration", Stated: c.Webhooks[n]}
			setDefault(&w.FailurePolicy, admissionregistrationv1.Fail)
			setDefault(&w.MatchPolicy, admissionregistrationv1.Equivalent)
			setDefault(&w.NamespaceSelector, metav1.LabelSelector{})
			setDefault(&w.ObjectSelector, metav1.LabelSelector{})
			setDefault(&w.TimeoutSeconds, 10)
			setDefault(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
			w.conditions = i.compiler.Compile(w.MatchConditions)
			criteria := matching.NewWebhookCriteria(w.Rules, w.MatchPolicy, w.NamespaceSelector, w.ObjectSelector)
			w.index = matching.NewIndex(func(r *matching.Resolver) []*matching.Candidate {
				if r.Target.IsConfiguration() || r.Target.IsReview() {
					return nil
				}
				if found := r.Resolve(criteria); found != nil {
					return []*matching.Candidate{found}
				}
				return nil
			})
			i.Webhooks = append(i.Webhooks, w)
		}
	})
}

func setDefault[V any](field **V, value V) {
	if *field == nil {
		*field = &value
	}
}

// A Backend is what serves a webhook in the cluster.
type Backend struct {
	// Name is the name of the Service, and Service the object; nil if it is not among the objects.
	Name    types.NamespacedName
	Service *corev1.Service
	// Workloads are those whose pods the Service selects, and their owners.
	Workloads []*Workload
	// Ready is the number of ready endpoints. KnowsEndpoints reports whether it is known.
	Ready          int
	KnowsEndpoints bool
}

// Backend returns the backend of a webhook, or nil if it is called at a URL.
func (i *Inventory) Backend(w *Webhook) *Backend {
	return i.BackendOf(w.ClientConfig.Service)
}

// BackendOf returns the backend that a reference names; nil for none.
func (i *Inventory) BackendOf(reference *admissionregistrationv1.ServiceReference) *Backend {
	if reference == nil {
		return nil
	}
	b := &Backend{Name: types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}}
	b.Service = i.Services[b.Name]
	b.Ready, b.KnowsEndpoints = i.ready[b.Name], i.Complete || i.hasEndpoints
	if b.Service == nil || len(b.Service.Spec.Selector) == 0 {
		return b
	}
	selector := labels.SelectorFromSet(b.Service.Spec.Selector)
	taken := map[*Workload]bool{}
	for _, workload := range i.Workloads {
		if workload.Namespace != b.Name.Namespace || !selector.Matches(labels.Set(workload.Labels)) {
			continue
		}
		for ; workload != nil && !taken[workload]; workload = i.owner(workload) {
			taken[workload] = true
			b.Workloads = append(b.Workloads, workload)
		}
	}
	return b
}

// owner returns the workload that owns another one, or nil if there is none or it isn't known.
func (i *Inventory) owner(w *Workload) *Workload {
	if w.Owner == nil {
		return nil
	}
	for _, candidate := range i.Workloads {
		if candidate.Namespace == w.Namespace && candidate.Name == w.Owner.Name && candidate.Kind.Kind == w.Owner.Kind {
			return candidate
		}
	}
	return nil
}

// HasServices reports whether any Service is among the objects.
func (i *Inventory) HasServices() bool { return len(i.Services) > 0 }
