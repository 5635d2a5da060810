// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/plugin"
)

// A Call is a call that API servers make: a webhook of a configuration.
type Call struct {
	// Name is the webhook's name, which clients read in a refusal.
	Name string
	// Path is the path that serves it: /mutate or /validate, or a path below.
	Path string
	// Phase is the phase in which the plugins are asked.
	Phase plugin.Phase
	// Plugins are the plugins that are asked, in the order of the options.
	Plugins []plugin.Descriptor
	// FailurePolicy decides about a request if the call fails.
	FailurePolicy admissionregistrationv1.FailurePolicyType
}

const domain = "gatehouse.dev"

// phases are the two phases with the first part of their paths.
var phases = []struct {
	phase plugin.Phase
	path  string
}{{plugin.Mutating, "mutate"}, {plugin.Validating, "validate"}}

// Calls returns the calls that API servers make by the configurations.
func Calls(o *Options) []Call { return calls(o, !o.PerPlugin, o.PerPlugin) }

// Served returns all calls that a replica has to serve: those with PerPlugin and those without it.
// While replicas with other options replace old ones, the configurations of either call both.
func Served(o *Options) []Call { return calls(o, true, true) }

func calls(o *Options, together, apart bool) []Call {
	var all []Call
	for _, p := range phases {
		byPolicy := map[admissionregistrationv1.FailurePolicyType][]plugin.Descriptor{}
		var single []Call
		for i := range o.Plugins {
			d := o.Plugins[i]
			if !d.Phases.Has(p.phase) {
				continue
			}
			policy, name := o.failurePolicy(d.Name), strings.ToLower(d.Name)
			byPolicy[policy] = append(byPolicy[policy], d)
			single = append(single, Call{Name: name + "." + domain, Path: "/" + p.path + "/" + name, Phase: p.phase,
				Plugins: []plugin.Descriptor{d}, FailurePolicy: policy})
		}
		if together {
			for _, c := range []Call{
				{Name: p.path + "." + domain, Path: "/" + p.path, FailurePolicy: admissionregistrationv1.Fail},
				{Name: p.path + "-ignore." + domain, Path: "/" + p.path + "/ignore",
					FailurePolicy: admissionregistrationv1.Ignore},
			} {
				if c.Phase, c.Plugins = p.phase, byPolicy[c.FailurePolicy]; len(c.Plugins) > 0 {
					all = append(all, c)
				}
			}
		}
		if apart {
			all = append(all, single...)
		}
	}
	return all
}
