// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// noGenerator is a generator that must not be asked.
type noGenerator struct{ t *testing.T }

func (g noGenerator) GenerateToken(context.Context, *jwt.Claims, any) (string, error) {
	g.t.Error("a token is made")
	return "", nil
}

// No token is made that the API server would accept, or by a server that signs none.
//
// Source: k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go#TokenREST.hasAnyKubeAudiences 9096da0a
func TestWebhookTokensThatAreNotMade(t *testing.T) {
	c := &config{options: &Options{}, generic: &server.Config{}}
	c.generic.Authentication.APIAudiences = []string{"api", "https://api.example.com"}
	spec := &authenticationv1.TokenRequestSpec{Audiences: []string{"https://api.example.com"}}
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{}, "the server signs no tokens: it needs --service-account-signing-key-file"},
		{Options{tokenIssuer: noGenerator{t}}, "api server audiences are invalid for webhook token requests"},
	} {
		c.options = &test.options
		if _, err := c.webhookToken(t.Context(), spec); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// Webhooks are shown tokens by a server with the gate, unless it has the name kube-apiserver, or only
// its own process calls it.
func TestShowsTokens(t *testing.T) {
	inProcess := NewOptions()
	inProcess.InProcess = true
	for _, gate := range []bool{false, true} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
			features.APIServerWebhookAuthenticationToken, gate)
		for name, test := range map[string]struct {
			options *Options
			want    bool
		}{
			"serve":          {NewOptions(), gate},
			"kube-apiserver": {NewKubeAPIServerOptions(), false},
			"review":         {inProcess, false},
		} {
			if got := test.options.showsTokens(); got != test.want {
				t.Errorf("%s with the gate set to %t: %t", name, gate, got)
			}
		}
	}
}
