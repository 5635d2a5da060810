// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alwaysdeny implements the admission plugin AlwaysDeny, which refuses every write and
// every CONNECT, of every user, with a 403 that says "admission control is denying all
// modifications". Reads don't reach admission.
//
// It takes part in both phases: in the mutating phase so that nothing goes on to validation and
// storage, and in the validating phase for hosts that run only that one. It is the last plugin of
// the list, so earlier plugins may have had side effects. It is for tests; a cluster is better
// frozen by taking away the permission to write.
package alwaysdeny

import (
	"context"
	_ "embed"
	"errors"
	"io"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const name = "AlwaysDeny"

//go:embed README.md
var manual string

// Descriptor describes AlwaysDeny. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses every request",
	Manual:     manual,
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

// Handles returns true for all operations.
func (alwaysDeny) Handles(admission.Operation) bool { return true }

// Admit refuses.
func (alwaysDeny) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errDenied)
}

// Validate refuses.
func (alwaysDeny) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errDenied)
}
