// Package denyescalatingexec is the plugin DenyEscalatingExec: it refuses exec into and attach to
// pods that reach their host. Such a pod has a privileged container (init and ephemeral ones
// count), or is in the host's PID or IPC namespace. A user who got into it would be root on the
// node. Kubernetes dropped the plugin in 1.21.
//
// The pod as a whole counts, not the container that the request names: containers of a pod share
// too much for that. The pod is read live at each request.
//
// Other ways in are left alone: port-forward and proxy reach only what the pod itself serves, and
// other plugins decide who may create pods (or ephemeral containers) of that kind.
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
