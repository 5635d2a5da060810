// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
)

// A rule for one version or group of a kind holds where the same objects are written in another.
func TestEquivalentResources(t *testing.T) {
	rule := func(group, version string) []admissionregistrationv1alpha1.Rule {
		return []admissionregistrationv1alpha1.Rule{{APIGroups: []string{group}, APIVersions: []string{version},
			Resources: []string{"deployments"}}}
	}
	all := mergedInitializers{{Name: "a.example.com", Rules: rule("apps", "v1")},
		{Name: "b.example.com", Rules: rule("extensions", "v1beta1")},
		{Name: "c.example.com", Rules: rule("batch", "v1")}}
	v1 := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	beta := schema.GroupVersionResource{Group: "extensions", Version: "v1beta1", Resource: "deployments"}
	if got := all.list(v1, []schema.GroupVersionResource{beta, v1}); got != "a.example.com,b.example.com" {
		t.Errorf("got %q", got)
	}
	if got := all.list(beta, nil); got != "b.example.com" {
		t.Errorf("got %q", got)
	}
}
