// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin/plugintest"
)

// What was answered once in a request is answered alike in all of it: to other expressions, other
// policies, and to match conditions. The next request asks anew.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#TestAuthorizationDecisionCaching 7e4110bf
// Source: k8s.io/apiserver/pkg/admission/plugin/authorizer/caching_authorizer_test.go#TestCachingAuthorizer 7f3cce4a
func TestRightsAreAskedOnce(t *testing.T) {
	const podsOf = "authorizer.group('').resource('pods')"
	for name, test := range map[string]struct {
		expressions []string
		asked       int
	}{
		"alike": {[]string{podsOf + ".check('a').reason() == '1'",
			podsOf + ".check('a').reason() == authorizer.group('').resource('pods').check('a').reason()"}, 1},
		"verbs": {[]string{podsOf + ".check('a').reason() == '1'",
			podsOf + ".check('b').reason() == '2'"}, 2},
		"subresources": {[]string{podsOf + ".subresource('x').check('a').reason() == '1'",
			podsOf + ".check('a').reason() == '2'"}, 2},
		"names": {[]string{podsOf + ".name('x').check('a').reason() == '1'",
			podsOf + ".name('y').check('a').reason() == '2'"}, 2},
		"namespaces": {[]string{podsOf + ".namespace('x').check('a').reason() == '1'",
			podsOf + ".check('a').reason() == '2'"}, 2},
		"groups": {[]string{podsOf + ".check('a').reason() == '1'",
			"authorizer.group('apps').resource('pods').check('a').reason() == '2'"}, 2},
		"paths": {[]string{"authorizer.path('/x').check('a').reason() == '1'",
			"authorizer.path('/y').check('a').reason() == '2'"}, 2},
		"users": {[]string{podsOf + ".check('a').reason() == '1'",
			"authorizer.serviceAccount('x', 'y').group('').resource('pods').check('a').reason() == '2'"}, 2},
		"selectors": {[]string{podsOf + ".fieldSelector('a=b').check('a').reason() == '1'",
			podsOf + ".fieldSelector('a=c').check('a').reason() == '2'",
			podsOf + ".labelSelector('a=b').check('a').reason() == '3'",
			podsOf + ".labelSelector('a in (b, c)').check('a').reason() == '4'",
			podsOf + ".labelSelector('a=b').check('a').reason() == '3'"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			validations := ""
			for _, expression := range test.expressions {
				validations += fmt.Sprintf("{expression: %q}, ", expression)
			}
			spec := fmt.Sprintf(`{matchConditions: [{name: c, expression: %q}], validations: [%s]}`,
				test.expressions[0], validations)
			c := cluster(t, policyOf(t, "p", spec), bind(t, "p", ""), policyOf(t, "q", spec), bind(t, "q", ""))
			asked := 0
			c.Env.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (
				authorizer.Decision, string, error) {
				asked++
				return authorizer.DecisionAllow, fmt.Sprint(asked), nil
			})
			p := c.Build(t, descriptor, "")
			for range 2 {
				asked = 0
				p.Validate(t, plugintest.Create(pod("web"))).Admitted(t)
				if asked != test.asked {
					t.Errorf("the authorizer was asked %d times, want %d", asked, test.asked)
				}
			}
		})
	}
}

// An authorizer that had no time is asked again.
func TestRightsOutOfTime(t *testing.T) {
	asked := 0
	r := &cachingAuthorizer{authorizer: authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (
		authorizer.Decision, string, error) {
		asked++
		return authorizer.DecisionAllow, "", ctx.Err()
	})}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i, ctx := range []context.Context{over, t.Context(), t.Context()} {
		if _, _, err := r.Authorize(ctx, authorizer.AttributesRecord{}); (err != nil) != (i == 0) {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	if asked != 2 {
		t.Errorf("it was asked %d times, want 2", asked)
	}
}
