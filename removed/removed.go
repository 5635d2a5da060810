// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removed holds the plugins that Kubernetes removed. Package serving holds their APIs.
//
// The plugins are written against the public contract, as those of a third party are. A program has them
// if its main calls Add:
//
//	cli.Main(removed.Add(plugins.List, serving.New))
//
// The package is public: docs/compatibility.md promises Add, but nothing about the packages below this one.
package removed

import (
	"slices"

	"gatehouse.dev/plugin"
	"gatehouse.dev/removed/denyescalatingexec"
	"gatehouse.dev/removed/denyexeconprivileged"
	"gatehouse.dev/removed/initializers"
	"gatehouse.dev/removed/initialresources"
	"gatehouse.dev/removed/persistentvolumelabel"
	"gatehouse.dev/removed/podpreset"
	"gatehouse.dev/removed/podsecuritypolicy"
	"gatehouse.dev/removed/resourcedefaults"
	"gatehouse.dev/removed/securitycontextdeny"
)

// places holds the plugins by the plugin of Kubernetes that they run before.
var places = []struct {
	before  string
	plugins []plugin.Descriptor
}{
	{"LimitPodHardAntiAffinityTopology", []plugin.Descriptor{securitycontextdeny.Descriptor}},
	{"LimitRanger", []plugin.Descriptor{
		podpreset.Descriptor, // before the plugins that read the containers' environment and mounts
		// before ResourceDefaults and LimitRanger, whose defaults are for what can't be estimated
		initialresources.Descriptor,
		resourcedefaults.Descriptor, // before LimitRanger, whose limits hold for these defaults too
	}},
	// after ServiceAccount and the other plugins that add volumes, which its policies must allow, and after
	// PodSecurity, so that that one also audits pods which this one refuses
	{"PodNodeSelector", []plugin.Descriptor{podsecuritypolicy.Descriptor}},
	{"EventRateLimit", []plugin.Descriptor{denyescalatingexec.Descriptor, denyexeconprivileged.Descriptor}},
	{"DefaultStorageClass", []plugin.Descriptor{persistentvolumelabel.Descriptor}},
	// last to change objects: a creator that waits for the object gets it as admitted so far
	{"ValidatingAdmissionPolicy", []plugin.Descriptor{initializers.Descriptor}},
}

// Add returns a copy of list with the removed plugins in their places. serve is what makes their API
// servers serve the plugins' APIs, which is serving.New, or nil for a program without an API server; see
// plugin.Server. Add panics if the list lacks a plugin that one of them runs before.
func Add(list []plugin.Descriptor, serve any) []plugin.Descriptor {
	for _, place := range places {
		added := slices.Clone(place.plugins)
		for i := range added {
			added[i].Server.Former = serve
		}
		list = plugin.InsertBefore(list, place.before, added...)
	}
	return list
}
