// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"go/ast"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"

	"gatehouse.dev/internal/kubesource"
)

// Each kind of Kubernetes' APIs is exempt from webhooks or policies if upstream exempts it.
func TestExemptionsAreUpstreams(t *testing.T) {
	var policies []string
	admissionResources := kubesource.Parse(t, "k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go").
		Value("admissionResources").(*ast.CompositeLit)
	for _, element := range admissionResources.Elts {
		if group := kubesource.Pairs(element.(*ast.CompositeLit))["Group"]; group != "admissionregistrationv1.GroupName" {
			t.Fatalf("upstream has a policy of the group %s", group)
		}
		policies = append(policies, kubesource.Strings(element)...)
	}
	found := map[string]int{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		attributes := request(create, kind, plural.Resource, "", "o", nil, nil)
		target := TargetOf(attributes)
		for name, pair := range map[string][2]bool{
			"configuration": {target.IsConfiguration(), rules.IsExemptAdmissionConfigurationResource(attributes)},
			"policy": {target.IsPolicy(), kind.Group == admissionregistrationv1.GroupName &&
				slices.Contains(policies, plural.Resource)},
			"review": {target.IsReview(), slices.Contains(exclusion.Excluded(), plural.GroupResource())},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%v is a %s: %t, upstream says %t", kind, name, pair[0], pair[1])
			}
			if pair[1] && kind.Version == "v1" {
				found[name]++
			}
		}
	}
	if found["configuration"] != 6 || found["policy"] != len(policies) || found["review"] != len(exclusion.Excluded()) {
		t.Errorf("the known kinds that upstream exempts are %v", found)
	}
}
