// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/matching"
)

// excludeReviews is the feature gate that keeps webhooks away from reviews of identities and rights, so
// that none can lock everybody out. Kubernetes has it since 1.37.
const excludeReviews = "ExcludeAdmissionWebhookVirtualResources"

// logReviews logs with info which reviews the rules of a configuration name: webhooks aren't asked about these.
//
// Source: k8s.io/apiserver/pkg/admission/configuration/warning.go fac86f2d
func logReviews(info func(string, ...any), kind, name string, webhooks []admissionregistrationv1.MutatingWebhook) {
	var named []string
	for i := range webhooks {
		for _, rule := range webhooks[i].Rules {
			named = append(named, reviewsIn(rule.Rule)...)
		}
	}
	if len(named) == 0 {
		return
	}
	slices.Sort(named)
	info("Admission webhook configuration names resources that are excluded from admission webhooks; the "+
		"matching rules will have no effect", "kind", kind, "name", name, "excludedResources", slices.Compact(named))
}

// reviewsIn returns the reviews that a rule names. A rule with a wildcard names none.
func reviewsIn(rule admissionregistrationv1.Rule) []string {
	if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
		return nil
	}
	var named []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			target := matching.Target{Resource: schema.GroupVersionResource{Group: group, Resource: resource}}
			if target.IsReview() {
				named = append(named, target.Resource.GroupResource().String())
			}
		}
	}
	return named
}
