// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import "k8s.io/component-base/featuregate"

// Enabled reports whether a feature gate is on. A gate that the host doesn't have, because the gate
// belongs to a program other than kube-apiserver, is off.
func (e *Env) Enabled(gate featuregate.Feature) bool {
	return e.Knows(gate) && e.Features.Enabled(gate)
}

// Disabled reports whether the host has a feature gate and it is off. Use it for features that are
// part of Kubernetes by now, but not of each version that a host may emulate: a host without the
// gate has the feature.
func (e *Env) Disabled(gate featuregate.Feature) bool {
	return e.Knows(gate) && !e.Features.Enabled(gate)
}

// Knows reports whether the host has a feature gate. Asking whether another is on would panic. A
// gate that is newer than the emulated version is known, and off.
func (e *Env) Knows(gate featuregate.Feature) bool {
	if e.Features == nil {
		return false
	}
	_, known := e.Features.DeepCopy().GetAllVersioned()[gate]
	return known
}
