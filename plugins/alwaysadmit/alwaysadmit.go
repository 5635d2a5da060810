// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alwaysadmit implements the admission plugin AlwaysAdmit, which admits every request in
// both phases without reading it.
//
// A server without it does the same. The plugin dates from the time when --admission-control had to
// name at least one plugin, and stays for command lines and tests that still name it.
package alwaysadmit

import (
	"context"
	_ "embed"
	"io"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const name = "AlwaysAdmit"

//go:embed README.md
var manual string

// Descriptor describes AlwaysAdmit. It needs nothing of its host.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Admits every request",
	Manual:     manual,
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: plugin.EveryOperation,
	Deprecated: "it has no real meaning: a request that no plugin refuses is admitted anyway",
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		return alwaysAdmit{}, nil
	},
}

type alwaysAdmit struct{}

var (
	_ plugin.Mutator   = alwaysAdmit{}
	_ plugin.Validator = alwaysAdmit{}
)

// Handles returns true for all operations.
func (alwaysAdmit) Handles(admission.Operation) bool { return true }

// Admit admits.
func (alwaysAdmit) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// Validate admits.
func (alwaysAdmit) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}
