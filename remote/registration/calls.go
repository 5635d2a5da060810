package registration

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/chain"
)

// A Call is one that API servers make: a webhook of a configuration.
type Call struct {
	// Name is the webhook's, which clients read where it refuses.
	Name string
	// Path is where it is served: /mutate or /validate, or a path below.
	Path string
	// Phase is that in which the plugins are asked.
	Phase chain.Phases
	// Plugins are those that are asked, in the order of the options.
	Plugins []chain.Descriptor
	// FailurePolicy is what becomes of a request where the call fails.
	FailurePolicy admissionregistrationv1.FailurePolicyType
}

const domain = "gatehouse.dev"

// phases are the two of them with the first part of their paths.
var phases = []struct {
	phase chain.Phases
	path  string
}{{chain.Mutating, "mutate"}, {chain.Validating, "validate"}}

// Calls are those that the configurations have API servers make.
func Calls(o *Options) []Call { return calls(o, !o.PerPlugin, o.PerPlugin) }

// Served are all calls that a replica has to serve: those of PerPlugin and those without it. While
// replicas are replaced by others with other options, configurations of either call both.
func Served(o *Options) []Call { return calls(o, true, true) }

func calls(o *Options, together, apart bool) []Call {
	var all []Call
	for _, p := range phases {
		byPolicy := map[admissionregistrationv1.FailurePolicyType][]chain.Descriptor{}
		var single []Call
		for i := range o.Plugins {
			plugin := o.Plugins[i]
			if !plugin.Phases.Has(p.phase) {
				continue
			}
			policy, name := o.failurePolicy(plugin.Name), strings.ToLower(plugin.Name)
			byPolicy[policy] = append(byPolicy[policy], plugin)
			single = append(single, Call{Name: name + "." + domain, Path: "/" + p.path + "/" + name, Phase: p.phase,
				Plugins: []chain.Descriptor{plugin}, FailurePolicy: policy})
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
