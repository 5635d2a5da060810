// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
)

// A Write is a request that a user, a controller or a node would make.
type Write struct {
	// What says what it is: "the creation of pods in kube-system".
	What            string
	Operation       admission.Operation
	Kind            schema.GroupVersionKind
	Resource        schema.GroupVersionResource
	Subresource     string
	Namespace, Name string
	// Labels and Spec are those of the object. Spec may be nil.
	Labels map[string]string
	Spec   map[string]any
	User   user.Info
}

// object returns the object of the write.
func (w *Write) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(w.Kind)
	o.SetNamespace(w.Namespace)
	o.SetName(w.Name)
	o.SetLabels(w.Labels)
	if w.Spec != nil {
		o.Object["spec"] = runtime.DeepCopyJSON(w.Spec)
	}
	if w.Kind.Kind == "Namespace" {
		o.SetNamespace("")
	}
	return o
}

// Asks reports whether a webhook is asked about a write. The error says why that can't be known from here:
// most often a match condition can't be evaluated. A webhook may be asked then, and the server decides by
// failurePolicy.
func (i *Inventory) Asks(ctx context.Context, w *Webhook, write *Write) (bool, error) {
	now, old := write.states()
	runtimeObject := func(o *unstructured.Unstructured) runtime.Object {
		if o == nil {
			return nil
		}
		return o
	}
	attributes := admission.NewAttributesRecord(runtimeObject(now), runtimeObject(old), write.Kind, write.Namespace,
		write.Name, write.Resource, write.Subresource, write.Operation, nil, false, write.User)
	candidates := w.index.Candidates(matching.TargetOf(attributes), i.Equivalents)
	if len(candidates) == 0 {
		return false, nil
	}
	request := matching.NewRequest(attributes, nil, matching.Namespaces{Cache: namespaceLister{i}})
	match, mismatch, err := request.Match(ctx, candidates[0])
	if err != nil || mismatch != matching.Matches {
		return err != nil, err
	}
	content := func(o *unstructured.Unstructured) expression.Content {
		if o == nil {
			return nil
		}
		return func() (map[string]any, error) { return o.Object, nil }
	}
	described := func() *admissionv1.AdmissionRequest { return request.Describe(match.Kind, write.Resource) }
	verdict := w.conditions.Match(ctx, expression.NewVariables(content(now), content(old), described, write.User, nil))
	return verdict.Matches || verdict.Err != nil, verdict.Err
}

// states returns the object as it is written and as it was; nil for none.
func (w *Write) states() (now, old *unstructured.Unstructured) {
	switch object := w.object(); w.Operation {
	case admission.Update:
		return object, object
	case admission.Delete:
		return nil, object
	default:
		return object, nil
	}
}

// namespaceLister lists the namespaces of an inventory. A namespace that isn't among them is taken to have
// the one label that every namespace has.
type namespaceLister struct{ *Inventory }

// List implements corelisters.NamespaceLister.
func (l namespaceLister) List(selector labels.Selector) (found []*corev1.Namespace, _ error) {
	for _, n := range l.Namespaces {
		if selector.Matches(labels.Set(n.Labels)) {
			found = append(found, n)
		}
	}
	return found, nil
}

// Get implements corelisters.NamespaceLister.
func (l namespaceLister) Get(name string) (*corev1.Namespace, error) {
	if n := l.Namespaces[name]; n != nil {
		return n, nil
	}
	return named(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}), nil
}

// ServiceAccount returns the user that a service account is.
func ServiceAccount(namespace, name string) user.Info {
	return &user.DefaultInfo{Name: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
}

// Administrator returns a user who may do everything.
func Administrator() user.Info {
	return &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
}
