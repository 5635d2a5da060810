package chaintest

import (
	"context"
	"io"

	"k8s.io/apiserver/pkg/admission"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/chain"
)

// Observe runs one phase of the plugin in a chain that tells observer, and returns the chain's
// error. The request's objects may be changed.
func (p *Plugin) Observe(ctx context.Context, t TB, phase chain.Phases, r Request, observer chain.Observer) error {
	t.Helper()
	c, err := chain.New([]chain.Descriptor{{
		Name: "plugin", Phases: phase, Resources: p.Resources,
		New: func(io.Reader, *chain.Env) (admission.Interface, error) { return p.Interface, nil },
	}}, nil, p.Env, observer)
	if err != nil {
		t.Fatalf("a chain of the plugin: %v", err)
	}
	run := c.Admit
	if phase == chain.Validating {
		run = c.Validate
	}
	return run(ctx, r.attributes(r.Object, r.OldObject),
		admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme))
}
