// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// warningChain is a chain that warns clients of what they write, once it is admitted.
type warningChain struct {
	*chain.Chain
	about []warner
}

// A warner looks at the object of an admitted request, and warns its client.
type warner interface {
	warn(context.Context, admission.Attributes)
}

// withWarnings returns a chain with the warnings that a configuration asks for.
func (c *Config) withWarnings(admit *chain.Chain, env *plugin.Env, selected []plugin.Descriptor) apiserver.Admission {
	if !c.Warn {
		return admit
	}
	missing := newUnenforced(c.Plugins, selected)
	return &warningChain{admit, []warner{missing, &outages{env.Dynamic, missing}}}
}

// Handles implements admission.Interface.
func (w *warningChain) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update || w.Chain.Handles(operation)
}

// Validate implements admission.ValidationInterface.
func (w *warningChain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := w.Chain.Validate(ctx, a, o); err != nil || a.GetSubresource() != "" || a.GetObject() == nil {
		return err
	}
	for _, about := range w.about {
		about.warn(ctx, a)
	}
	return nil
}
