package chain

import "k8s.io/component-base/featuregate"

// Enabled tells whether a feature gate is on. One that the host doesn't have, because it is
// another program's than kube-apiserver's, is off.
func (e *Env) Enabled(gate featuregate.Feature) bool {
	if e.Features == nil {
		return false
	}
	// Asking for a gate that a host doesn't have would panic.
	if _, known := e.Features.DeepCopy().GetAll()[gate]; !known {
		return false
	}
	return e.Features.Enabled(gate)
}
