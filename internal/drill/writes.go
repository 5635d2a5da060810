// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"slices"

	"gatehouse.dev/internal/inventory"
)

// An areaWrite is a write that is tried in a drill.
type areaWrite struct {
	*inventory.Write
	// area is where it belongs: "nodes", "events" or a namespace.
	area string
	// critical reports whether the cluster can't do without it.
	critical bool
}

// The areas that are no namespaces.
const (
	nodesArea  = "nodes"
	eventsArea = "events"
)

// writesOf returns the writes that are tried: of nodes, of events, and in each namespace those of pods and of what
// brings them back, kube-system first.
func writesOf(i *inventory.Inventory) (all []areaWrite) {
	add := func(area string, critical bool, writes ...*inventory.Write) {
		for _, w := range writes {
			all = append(all, areaWrite{w, area, critical})
		}
	}
	add(nodesArea, true, inventory.NodeLeases()...)
	add(nodesArea, true, inventory.Nodes()...)
	add(nodesArea, true, inventory.CertificateRequests()...)
	add(eventsArea, false, inventory.Events()...)
	const system = "kube-system"
	pods := map[string][]areaWrite{system: nil}
	for name := range i.Namespaces {
		pods[name] = nil
	}
	for _, w := range i.Workloads {
		if w.Owner == nil {
			pods[w.Namespace] = append(pods[w.Namespace], areaWrite{inventory.PodCreation(w), w.Namespace,
				w.Namespace == system || w.Critical()})
		} else if _, ok := pods[w.Namespace]; !ok {
			pods[w.Namespace] = nil
		}
	}
	namespaces := []string{}
	for name := range pods {
		if name != system {
			namespaces = append(namespaces, name)
		}
	}
	slices.Sort(namespaces)
	for _, name := range append([]string{system}, namespaces...) {
		if len(pods[name]) == 0 {
			add(name, name == system, inventory.AnyPod(name))
		}
		all = append(all, pods[name]...)
		add(name, name == system, inventory.Healing(name)...)
	}
	return all
}
