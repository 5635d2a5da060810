// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
)

// checkGenerations checks that no server applies an older generation of the policy or the webhook
// after a newer one: a request that begins after another one has ended sees the same generation, or a
// later one.
func (h *History) checkGenerations(r *Report) {
	byServer := map[string][]*Operation{}
	for i := range h.Operations {
		o := &h.Operations[i]
		isWrite := o.Verb == "create" || o.Verb == "update" || o.Verb == "patch"
		if isWrite && o.Namespace == Registers && o.Resource == "configmaps" && o.Object != nil {
			byServer[o.Server] = append(byServer[o.Server], o)
		}
	}
	for server, writes := range byServer {
		checkForward(r, "policy", server, writes, func(o *Operation) int64 { return o.Object.Policy })
		checkForward(r, "webhook", server, writes, func(o *Operation) int64 { return o.Object.Webhook })
	}
}

func checkForward(r *Report, what, server string, writes []*Operation, generation func(*Operation) int64) {
	byEnd := slices.Clone(writes)
	slices.SortFunc(byEnd, func(a, b *Operation) int { return cmp.Compare(a.End, b.End) })
	seen := map[int64]bool{}
	var newest *Operation
	next := 0
	for _, o := range writes { // in the order of Start
		for ; next < len(byEnd) && byEnd[next].End < o.Start; next++ {
			if newest == nil || generation(byEnd[next]) > generation(newest) {
				newest = byEnd[next]
			}
		}
		r.count("writes with a " + what)
		if g := generation(o); g == 0 {
			r.fail("generations", "%s: %s was written without the %s", server, o.ID, what)
		} else if newest != nil && g < generation(newest) {
			r.fail("generations", "%s applied %s %d to %s, and before it %d to %s", server, what, g, o.ID,
				generation(newest), newest.ID)
		} else if !seen[g] {
			seen[g] = true
			r.count(what + " generations seen by a server")
		}
	}
}
