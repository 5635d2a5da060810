// Package denyescalatingexec is the plugin DenyEscalatingExec: nobody may exec into or attach to a
// pod that reaches its host, because one of its containers (init and ephemeral ones count) is
// privileged, or because it is in the host's PID or IPC namespace. Whoever got into it would be
// root on the node. Kubernetes no longer has it since 1.21.
//
// It is the pod as a whole that counts, not the container that the request names: containers of a
// pod share too much for that. The pod is read live at each request.
//
// Other ways in are left alone: port-forward and proxy speak to what the pod itself serves, and who
// may create pods (or ephemeral containers) of that kind is for other plugins to say.
package denyescalatingexec

import (
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/internal/denyexec"
)

const name = "DenyEscalatingExec"

// Descriptor is DenyEscalatingExec, not yet built. It needs a client.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses exec and attach to pods that are privileged or in the host's PID or IPC namespace",
	Remedy:     "Take a pod that has no access to its host: not privileged, and without the host's namespaces.",
	Phases:     plugin.Validating,
	Operations: denyexec.Operations,
	Resources:  denyexec.Resources,
	Access:     denyexec.Access,
	New:        denyexec.New(name, true),
}
