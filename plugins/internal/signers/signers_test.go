// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package signers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
)

// The cases of TestIsAuthorizedForSignerName in k8s.io/kubernetes/pkg/certauthorization.
func TestAllowed(t *testing.T) {
	for name, test := range map[string]struct {
		granted string // "verb name", or nothing
		err     error
		signer  string
		want    bool
		asked   []string
	}{
		"by its name":        {"sign a.b/c", nil, "a.b/c", true, []string{"sign a.b/c"}},
		"by its domain":      {"sign a.b/*", nil, "a.b/c", true, []string{"sign a.b/c", "sign a.b/*"}},
		"with a longer path": {"sign a.b/*", nil, "a.b/c/d", true, []string{"sign a.b/c/d", "sign a.b/*"}},
		"another name":       {"sign a.b/d", nil, "a.b/c", false, []string{"sign a.b/c", "sign a.b/*"}},
		"another domain":     {"sign b/*", nil, "a.b/c", false, []string{"sign a.b/c", "sign a.b/*"}},
		"another verb":       {"approve a.b/c", nil, "a.b/c", false, []string{"sign a.b/c", "sign a.b/*"}},
		"no path":            {"sign a.b/*", nil, "a.b", true, []string{"sign a.b", "sign a.b/*"}},
		"an authorizer that is out": {"sign a.b/c", errors.New("no"), "a.b/c", false,
			[]string{"sign a.b/c", "sign a.b/*"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			authz := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
				string, error) {
				asked = append(asked, a.GetVerb()+" "+a.GetName())
				if a.GetUser().GetName() != "jane" || a.GetResource() != "signers" || !a.IsResourceRequest() ||
					a.GetAPIGroup() != "certificates.k8s.io" || a.GetAPIVersion() != "*" || a.GetNamespace() != "" {
					t.Errorf("asked for %+v", a)
				}
				if asked[len(asked)-1] == test.granted {
					return authorizer.DecisionAllow, "", test.err
				}
				return authorizer.DecisionNoOpinion, "", test.err
			})
			got := Allowed(t.Context(), authz, &user.DefaultInfo{Name: "jane"}, "sign", test.signer)
			if got != test.want || !slices.Equal(asked, test.asked) {
				t.Errorf("got %t by asking %q, want %t by %q", got, asked, test.want, test.asked)
			}
		})
	}
}

func TestNeeds(t *testing.T) {
	if err := Needs("Example", nil, &plugin.Env{}); err == nil || err.Error() != "Example needs an authorizer" {
		t.Errorf("got %v", err)
	}
	err := Needs("Example", strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "Example takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
