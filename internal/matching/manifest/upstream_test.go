// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/internal/kubesource"
)

// TestChoicesAreUpstreams compares the values that a field may have with those that the API's
// validation accepts. It reads the validation's source: this package must not link k8s.io/kubernetes.
func TestChoicesAreUpstreams(t *testing.T) {
	ours := kubesource.Parse(t, "validation.go")
	theirs := kubesource.Parse(t, "k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go")
	for list, set := range map[string]string{
		"failurePolicies":      "supportedFailurePolicies",
		"matchPolicies":        "supportedMatchPolicies",
		"sideEffects":          "noSideEffectClasses",
		"reinvocationPolicies": "supportedReinvocationPolicies",
		"scopes":               "validScopes",
		"operations":           "supportedOperations",
	} {
		var got, want []string
		for _, constant := range kubesource.Elements(ours.Value(list)) {
			got = append(got, constant[strings.Index(constant, ".")+1:])
		}
		for _, argument := range theirs.Value(set).(*ast.CallExpr).Args {
			constant := kubesource.Text(argument.(*ast.CallExpr).Args[0])
			want = append(want, constant[strings.Index(constant, ".")+1:])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s are %q, upstream's %s are %q", list, got, set, want)
		}
	}
	var versions []string
	for _, version := range kubesource.Elements(theirs.Value("AcceptedAdmissionReviewVersions")) {
		versions = append(versions, strings.TrimSuffix(strings.TrimPrefix(version, "admissionregistration"),
			".SchemeGroupVersion.Version"))
	}
	if !slices.Equal(reviewVersions, versions) {
		t.Errorf("versions of AdmissionReview are %q, upstream's are %q", reviewVersions, versions)
	}
	most := -1
	ast.Inspect(theirs.Func("validateMatchConditions"), func(n ast.Node) bool {
		if comparison, ok := n.(*ast.BinaryExpr); ok && kubesource.Text(comparison.X) == "len(m)" && most < 0 {
			most = int(kubesource.Number(comparison.Y))
		}
		return true
	})
	if most != maxMatchConditions {
		t.Errorf("there may be %d match conditions, upstream says %d", maxMatchConditions, most)
	}
}
