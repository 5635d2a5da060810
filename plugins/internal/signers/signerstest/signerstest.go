// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signerstest is for the tests of plugins that ask what a user may do for a signer.
package signerstest

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// New returns the plugin in a cluster in which every user may do one thing and nothing else: the
// verb on the signer, or signers, of that name. Its authorizer fails if nothing at all is granted.
func New(t plugintest.TB, descriptor plugin.Descriptor, verb, signer string,
	objects ...runtime.Object) *plugintest.Plugin {
	t.Helper()
	cluster := plugintest.NewCluster(t, objects...)
	cluster.Env.Authorizer = authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			switch {
			case verb == "":
				return authorizer.DecisionNoOpinion, "", errors.New("the authorizer fails")
			case a.GetResource() == "signers" && a.GetVerb() == verb && a.GetName() == signer:
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
	return cluster.Build(t, descriptor, "")
}
