// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/aggregate"
	"gatehouse.dev/plugin"
)

// callOf returns the Call that reports the check of an object against a LimitRange.
func callOf(limitRange *corev1.LimitRange, violations []error) plugin.Call {
	call := plugin.Call{Kind: plugin.LimitRange, Name: limitRange.Name, Verdict: plugin.Admitted}
	if err := aggregate.New(violations); err != nil {
		call.Verdict, call.Why = plugin.Refused, err.Error()
	}
	return call
}

// reports says in words what each LimitRange sets. It is nil if no observer asks.
type reports []strings.Builder

// set writes down what a container gets, such as "cpu request 100m for container web".
func (r reports) set(d *defaultValue, what, container string) {
	if r == nil {
		return
	}
	said, start := &r[d.by], "; "
	if said.Len() == 0 {
		said.Grow(256)
		start = "sets "
	}
	for _, text := range []string{start, string(d.name), " ", what, " ", d.quantity.String(), " for container ",
		container} {
		said.WriteString(text)
	}
}

// add reports those LimitRanges that set anything.
func (r reports) add(calls *plugin.Calls, ranges []*corev1.LimitRange) {
	for i := range r {
		if said := &r[i]; said.Len() > 0 {
			calls.Add(plugin.Call{Kind: plugin.LimitRange, Name: ranges[i].Name, Verdict: plugin.Admitted,
				Why: said.String()})
		}
	}
}
