// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// setCapabilities adds the default capabilities, except those that the container drops, and drops
// those that the policy requires to be dropped. If it adds or drops any, it sorts both lists;
// otherwise they stay as they are.
func (p *policy) setCapabilities(d *draft, at place) {
	var own corev1.Capabilities
	if context := d.container(at).SecurityContext; context != nil && context.Capabilities != nil {
		own = *context.Capabilities
	}
	missing := func(wanted []corev1.Capability, listed ...[]corev1.Capability) []corev1.Capability {
		var missing []corev1.Capability
		for _, capability := range wanted {
			if !slices.ContainsFunc(listed,
				func(list []corev1.Capability) bool { return slices.Contains(list, capability) }) {
				missing = append(missing, capability)
			}
		}
		return missing
	}
	add := missing(p.spec.DefaultAddCapabilities, own.Add, own.Drop)
	drop := missing(p.spec.RequiredDropCapabilities, own.Drop)
	if len(add) == 0 && len(drop) == 0 {
		return
	}
	d.ofContainer(at, "capabilities").Capabilities = &corev1.Capabilities{Add: union(own.Add, add),
		Drop: union(own.Drop, drop)}
}

func union(a, b []corev1.Capability) []corev1.Capability {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// checkCapabilities finds fault with added capabilities that are neither allowed nor a default, and
// with missing drops that the policy requires.
func (p *policy) checkCapabilities(capabilities *corev1.Capabilities, at place, found *reasons) {
	if capabilities == nil {
		if len(p.spec.DefaultAddCapabilities) > 0 || len(p.spec.RequiredDropCapabilities) > 0 {
			found.add(field.Invalid(at.path().Child("capabilities"), nil,
				"required capabilities are not set on the securityContext"))
		}
		return
	}
	if slices.Contains(p.spec.AllowedCapabilities, policyv1beta1.AllowAllCapabilities) {
		return
	}
	for _, capability := range capabilities.Add {
		if !slices.Contains(p.spec.DefaultAddCapabilities, capability) &&
			!slices.Contains(p.spec.AllowedCapabilities, capability) {
			found.add(field.Invalid(at.path().Child("capabilities", "add"), string(capability),
				"capability may not be added"))
		}
	}
	for _, capability := range p.spec.RequiredDropCapabilities {
		if !slices.Contains(capabilities.Drop, capability) {
			found.add(field.Invalid(at.path().Child("capabilities", "drop"), capabilities.Drop,
				string(capability)+" is required to be dropped but was not found"))
		}
	}
}
