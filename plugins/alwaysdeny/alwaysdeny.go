// Package alwaysdeny is the plugin AlwaysDeny: it refuses every request that changes the cluster,
// of every user, with a 403 that says "admission control is denying all modifications".
//
// It takes part in both phases: in the mutating one, so that nothing goes on to validation and
// storage, and in the validating one for whoever runs only that. It sees what admission sees:
// writes and CONNECT, never reads. As the last of the list it doesn't keep earlier plugins from
// their side effects.
//
// It serves tests, and has no other real meaning: who wants to freeze a cluster takes the
// permission to write away.
package alwaysdeny

import (
	"context"
	"errors"
	"io"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const name = "AlwaysDeny"

// Descriptor is AlwaysDeny, not yet built. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses every request",
	Remedy:     "Nothing passes while this plugin is enabled: leave it out of the server's flags.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: plugin.EveryOperation,
	Deprecated: "it has no real meaning: nothing at all can be changed while it runs",
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return alwaysDeny{}, nil
	},
}

var errDenied = errors.New("admission control is denying all modifications")

type alwaysDeny struct{}

var (
	_ plugin.Mutator   = alwaysDeny{}
	_ plugin.Validator = alwaysDeny{}
)

// Handles says yes to all operations.
func (alwaysDeny) Handles(admission.Operation) bool { return true }

// Admit refuses.
func (alwaysDeny) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errDenied)
}

// Validate refuses.
func (alwaysDeny) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errDenied)
}
