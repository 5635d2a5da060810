// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package denyexeconprivileged implements the admission plugin DenyExecOnPrivileged, which refuses
// exec into and attach to pods with a privileged container of any kind.
//
// DenyEscalatingExec came later and also refuses pods in a namespace of the host. This plugin stays
// for command lines that name it. Kubernetes dropped it in 1.21.
package denyexeconprivileged

import (
	_ "embed"

	"gatehouse.dev/plugin"
	"gatehouse.dev/removed/internal/denyexec"
)

const name = "DenyExecOnPrivileged"

//go:embed README.md
var manual string

// Descriptor describes DenyExecOnPrivileged. It needs a client.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses exec and attach to pods with a privileged container",
	Manual:     manual,
	Remedy:     "Take a pod that has no access to its host: not privileged, and without the host's namespaces.",
	Phases:     plugin.Validating,
	Operations: denyexec.Operations,
	Resources:  denyexec.Resources,
	Access:     denyexec.Access,
	Deprecated: "DenyEscalatingExec refuses the same and more",
	New:        denyexec.New(name, false),
}
