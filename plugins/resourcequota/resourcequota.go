// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota implements the admission plugin ResourceQuota, which keeps a namespace
// within its ResourceQuotas.
//
// The plugin computes what a write costs and leaves the cost in the request's context. The storage
// charges it in the same etcd transaction as the object, with the quotas as they are at that
// moment; see docs/quota.md. So there is no cache that could be out of date and no charge that must
// be taken back. On a host that doesn't own the storage, the plugin does what Kubernetes does: it
// charges the quotas' status through the API, by compare and swap, before the object is stored.
package resourcequota

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/internal/quota/cluster"
	"gatehouse.dev/plugin"
)

// attempts bounds how often a charge through the API is tried if other clients keep changing the
// quota.
const attempts = 10

//go:embed README.md
var manual string

// Descriptor describes ResourceQuota.
//
//schema:configuration internal/quota.configuration ResourceQuotaConfiguration apiserver.config.k8s.io/v1
//schema:configuration internal/quota.configuration Configuration resourcequota.admission.k8s.io/v1beta1 resourcequota.admission.k8s.io/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:    "ResourceQuota",
	Summary: "Keeps what a namespace uses within its ResourceQuotas",
	Manual:  manual,
	Remedy: "Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised " +
		"(kubectl describe resourcequota).",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Default:    true,
	Access: []rbacv1.PolicyRule{
		plugin.To("list", "", "resourcequotas", "pods"),
		plugin.To("update", "", "resourcequotas/status"),
		plugin.To("list", "resource.k8s.io", "deviceclasses", "resourceclaims"),
		plugin.AskGates,
	},
	Server: plugin.Server{
		Enforces: []plugin.Enforced{{Resource: corev1.Resource("resourcequotas")}},
	},
	New: newPlugin,
}

type resourceQuota struct {
	client  kubernetes.Interface
	limited []quota.LimitedResource
	off     quota.Gates // the feature gates that are off
}

func newPlugin(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
	if env.Client == nil {
		return nil, errors.New("ResourceQuota needs a client")
	}
	limited, err := quota.LoadConfig(config)
	if err != nil {
		return nil, err
	}
	return &resourceQuota{
		client:  env.Client,
		limited: limited,
		off:     quota.GatesOff(func(gate featuregate.Feature) bool { return !env.Disabled(gate) }),
	}, nil
}

// Validate implements admission.ValidationInterface.
func (p *resourceQuota) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	refuse := func(err error) error { return admission.NewForbidden(a, err) }
	enforce := func(e quota.Enforcement) bool {
		e.Namespace, e.Name, e.DryRun, e.Limited, e.Refuse = a.GetNamespace(), a.GetName(), a.IsDryRun(), p.limited, refuse
		if enforcement := plugin.Enforce(a); enforcement != nil {
			reported := plugin.CallsOf(a) != nil
			e.OnDecision = func(change quota.Change, quotas []*corev1.ResourceQuota, refusal error) {
				var calls []plugin.Call
				if reported {
					calls = callsOf(change, quotas)
				}
				enforcement.Report(refusal, calls...)
			}
		}
		return quota.Enforce(ctx, &e)
	}
	resource, costs := countedAs(a)
	if !costs {
		return nil
	}
	// The storage measures objects whose cost depends on other objects: it has these, too.
	if quota.DependsOnRelated(resource, p.off) && enforce(quota.Enforcement{Resource: resource}) {
		return nil
	}
	change, err := p.changeOf(ctx, a, o, resource)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("cost of %s %q: %w", a.GetResource().GroupResource(), a.GetName(),
			err))
	}
	if !change.MovesUsage() || enforce(quota.Enforcement{Resource: resource, Old: change.Old, New: change.New}) {
		return nil
	}
	return p.charge(ctx, a, change, refuse)
}

// countedAs returns the resource as which the request's object counts, and reports whether the
// request can change the namespace's usage.
func countedAs(a admission.Attributes) (schema.GroupResource, bool) {
	resource := quota.StoredAs(a.GetResource().GroupResource())
	switch {
	case a.GetNamespace() == "" || resource.Resource == "namespaces" || quota.IsIgnored(resource):
		return resource, false
	case a.GetSubresource() == "status":
		// An update of the status of a Service that isn't there creates it.
		return resource, a.GetOperation() == admission.Create
	case a.GetSubresource() != "" && (a.GetSubresource() != "resize" || resource != corev1.Resource("pods")):
		return resource, false
	}
	return resource, a.GetOperation() != admission.Update || quota.DependsOnContent(resource)
}

// changeOf returns the change of the namespace's usage by the request.
func (p *resourceQuota) changeOf(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces,
	resource schema.GroupResource) (quota.Change, error) {
	meter := quota.Meter{Off: p.off, Related: cluster.NewReader(ctx, p.client, "")}
	cost := func(object func() runtime.Object) (*quota.Cost, error) {
		if !quota.DependsOnContent(resource) {
			return quota.CostOf(resource, &metav1.PartialObjectMetadata{})
		}
		versioned, err := asV1(object(), a.GetKind(), o)
		if err != nil {
			return nil, err
		}
		return meter.CostOf(resource, versioned)
	}
	change := quota.Change{Resource: resource}
	var err error
	if change.New, err = cost(a.GetObject); err != nil {
		return change, err
	}
	if a.GetOperation() == admission.Update {
		change.Old, err = cost(a.GetOldObject)
	}
	return change, err
}

// asV1 returns an object in the version in which it is measured. The only way from one version to
// another is through the server's own form.
func asV1(object runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object, error) {
	if kind.Version == "v1" {
		return object, nil
	}
	for _, version := range []string{runtime.APIVersionInternal, "v1"} {
		converted, err := o.GetObjectCreater().New(kind.GroupKind().WithVersion(version))
		if err != nil {
			return nil, err
		}
		if err := o.GetObjectConvertor().Convert(object, converted, nil); err != nil {
			return nil, err
		}
		object = converted
	}
	return object, nil
}

// charge decides by the quotas in the API. It charges them there, too, unless the request is a dry
// run.
func (p *resourceQuota) charge(ctx context.Context, a admission.Attributes, change quota.Change,
	refuse func(error) error) error {
	client := p.client.CoreV1().ResourceQuotas(a.GetNamespace())
	charged := sets.New[types.UID]()
	var told []plugin.Call
	if calls := plugin.CallsOf(a); calls != nil {
		defer func() {
			for _, call := range told {
				calls.Add(call)
			}
		}()
	}
	var err error
	for range attempts {
		var list *corev1.ResourceQuotaList
		if list, err = client.List(ctx, metav1.ListOptions{}); err != nil {
			return plugin.Unanswered(err,
				apierrors.NewInternalError(fmt.Errorf("reading the quotas of namespace %s: %w", a.GetNamespace(), err)))
		}
		var open []*corev1.ResourceQuota
		for i := range list.Items {
			if !charged.Has(list.Items[i].UID) {
				open = append(open, &list.Items[i])
			}
		}
		limited := p.limited
		if charged.Len() > 0 {
			limited = nil // already covered, by the charged quotas
		}
		moved, refusal := change.Admit(open, limited)
		if refusal != nil || charged.Len() == 0 {
			told = callsOf(change, open)
		}
		if refusal != nil {
			// An earlier charge stays until the quota controller counts again. Only a host that
			// owns the storage can do better.
			return refuse(refusal)
		}
		if a.IsDryRun() {
			return nil
		}
		for _, q := range moved {
			if _, err = client.UpdateStatus(ctx, q, metav1.UpdateOptions{}); err != nil {
				break
			}
			charged.Insert(q.UID)
		}
		// Read a quota again if it has changed or gone since it was read.
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return apierrors.NewConflict(change.Resource, a.GetName(),
			fmt.Errorf("charging the quotas of namespace %s: %w; please try again", a.GetNamespace(), err))
	}
	if err != nil {
		return plugin.Unanswered(err,
			apierrors.NewInternalError(fmt.Errorf("charging the quotas of namespace %s: %w", a.GetNamespace(), err)))
	}
	return nil
}

// callsOf returns the quotas that the change concerns, as calls for the chain's observers.
func callsOf(change quota.Change, quotas []*corev1.ResourceQuota) []plugin.Call {
	var calls []plugin.Call
	for _, q := range quotas {
		words, refused := change.Explain(q)
		if words == "" {
			continue
		}
		call := plugin.Call{Kind: plugin.Quota, Name: q.Name, Verdict: plugin.Admitted, Why: words}
		if refused {
			call.Verdict = plugin.Refused
		}
		calls = append(calls, call)
	}
	return calls
}
