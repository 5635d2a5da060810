package chain

import (
	"fmt"

	"k8s.io/component-base/featuregate"
)

// Enabled tells whether a feature gate is on. One that the host doesn't have, because it is
// another program's than kube-apiserver's, is off.
func (e *Env) Enabled(gate featuregate.Feature) bool {
	return e.knows(gate) && e.Features.Enabled(gate)
}

// Disabled tells whether a feature gate is there and off. It is for what is a part of Kubernetes by
// now, and wasn't of the versions that a host may emulate: a host without the gate has it.
func (e *Env) Disabled(gate featuregate.Feature) bool {
	return e.knows(gate) && !e.Features.Enabled(gate)
}

// knows tells whether the host has a feature gate. To ask whether another is on would panic. One
// that came after the version that the host emulates is there, and off.
func (e *Env) knows(gate featuregate.Feature) bool {
	if e.Features == nil {
		return false
	}
	_, known := e.Features.DeepCopy().GetAllVersioned()[gate]
	return known
}

// closed tells whether a plugin is behind a feature gate that is off. A gate that the host doesn't
// have is an error: a plugin that is enabled is not left out for want of a switch.
func (e *Env) closed(gate featuregate.Feature) (bool, error) {
	if gate == "" {
		return false, nil
	}
	if !e.knows(gate) {
		return false, fmt.Errorf("needs the feature gate %s, on or off", gate)
	}
	return !e.Features.Enabled(gate), nil
}
