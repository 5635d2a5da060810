// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"io"

	"k8s.io/apiserver/pkg/admission"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// Observe runs one phase of the plugin in a chain that reports to observer, and returns the chain's
// error. The plugin may change the request's objects.
func (p *Plugin) Observe(ctx context.Context, t TB, phase plugin.Phase, r Request, observer plugin.Observer) error {
	t.Helper()
	c, err := chain.New([]plugin.Descriptor{{
		Name: "plugin", Phases: phase, Operations: p.Operations, Resources: p.Resources,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return p.Built, nil },
	}}, nil, p.Env, observer)
	if err != nil {
		t.Fatalf("a chain of the plugin: %v", err)
	}
	run := c.Admit
	if phase == plugin.Validating {
		run = c.Validate
	}
	return run(ctx, r.attributes(r.Object, r.OldObject),
		admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme))
}
