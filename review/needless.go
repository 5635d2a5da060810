// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
)

// bearsOnNothing returns a function that reports whether an object of the state bears on no verdict, so that it
// needn't be stored.
func (o *TrialOptions) bearsOnNothing() func(*unstructured.Unstructured) bool {
	policiesOnly := o.runPoliciesOnly()
	var enforced []*unstructured.Unstructured
	for _, d := range slices.Concat(o.State, o.Candidate, o.Against) {
		if d.Object.GroupVersionKind().Group == admissionregistrationv1.GroupName {
			enforced = append(enforced, d.Object)
		}
	}
	params := live.ParamKinds(enforced)
	authorizes := slices.ContainsFunc(enforced, mentionsAuthorizer)
	return func(object *unstructured.Unstructured) bool {
		kind := object.GroupVersionKind()
		switch {
		case kind == service:
			// Their addresses and ports are taken, so they would refuse the writes that took them. Only webhooks
			// that are asked need services.
			return o.Webhooks != plugin.WebhooksAsked
		case !policiesOnly || hasKind(params, kind.GroupKind()):
			return false
		case kind.Group == rbacv1.GroupName:
			return !authorizes
		}
		return slices.Contains(kindsOfOtherPlugins, kind.GroupKind())
	}
}

// kindsOfOtherPlugins are the kinds of the state on which policies' and webhooks' verdicts don't depend.
var kindsOfOtherPlugins = []schema.GroupKind{
	{Kind: "ServiceAccount"}, {Kind: "LimitRange"}, {Kind: "Node"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}, {Group: "node.k8s.io", Kind: "RuntimeClass"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}, {Group: "networking.k8s.io", Kind: "IngressClass"},
	{Group: "networking.k8s.io", Kind: "ServiceCIDR"},
}

// runPoliciesOnly reports whether no other plugins run than those that judge by policies, webhooks and Pod Security
// levels.
func (o *TrialOptions) runPoliciesOnly() bool {
	if len(o.Config.Admission.Only) == 0 {
		return false
	}
	named := append(PolicyPlugins(o.Config.Plugins), PodSecurityPlugin(o.Config.Plugins))
	return !slices.ContainsFunc(o.Config.Admission.Only, func(name string) bool { return !slices.Contains(named, name) })
}

// mentionsAuthorizer reports whether an expression of an object may ask what a user may do.
func mentionsAuthorizer(o *unstructured.Unstructured) bool {
	data, err := o.MarshalJSON()
	return err != nil || bytes.Contains(data, []byte("authorizer"))
}
