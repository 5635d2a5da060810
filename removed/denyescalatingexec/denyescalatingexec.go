// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package denyescalatingexec implements the admission plugin DenyEscalatingExec, which refuses exec
// into and attach to pods that can reach their host. Such a pod has a privileged container of any
// kind, or is in the host's PID or IPC namespace.
//
// The whole pod is checked, not only the container that the request names, because containers of a
// pod share too much. The plugin reads the pod live at each request. It leaves port-forward and
// proxy alone, which reach only what the pod itself serves. Kubernetes dropped the plugin in 1.21.
package denyescalatingexec

import (
	_ "embed"

	"gatehouse.dev/plugin"
	"gatehouse.dev/removed/internal/denyexec"
)

const name = "DenyEscalatingExec"

//go:embed README.md
var manual string

// Descriptor describes DenyEscalatingExec. It needs a client.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses exec and attach to pods that are privileged or in the host's PID or IPC namespace",
	Manual:     manual,
	Remedy:     "Take a pod that has no access to its host: not privileged, and without the host's namespaces.",
	Phases:     plugin.Validating,
	Operations: denyexec.Operations,
	Resources:  denyexec.Resources,
	Access:     denyexec.Access,
	New:        denyexec.New(name, true),
}
