// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/plugin"
)

// lintAnnotation names the rules of gatehouse lint that the configurations break because of what their plugins
// are for.
const lintAnnotation = "lint.gatehouse.dev/ignore"

// ignored returns the lines of the annotation for the configuration of a phase: rules, and the plugins that are
// the reason.
func ignored(o *Options, phase plugin.Phase) string {
	var lines []string
	add := func(rule, reason string, applies func(*Call, *plugin.Descriptor) bool) {
		var names []string
		for _, call := range Calls(o) {
			for i := range call.Plugins {
				d := &call.Plugins[i]
				if call.Phase == phase && applies(&call, d) && !slices.Contains(names, d.Name) {
					names = append(names, d.Name)
				}
			}
		}
		if len(names) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s by nature (%s)", rule, reason, strings.Join(names, ", ")))
		}
	}
	fails := func(c *Call) bool { return c.FailurePolicy == admissionregistrationv1.Fail }
	everything := func(d *plugin.Descriptor) bool { return len(d.Resources) == 0 }
	about := func(group, resource string) func(*Call, *plugin.Descriptor) bool {
		return func(c *Call, d *plugin.Descriptor) bool {
			return everything(d) || fails(c) && namesResource(&Call{Plugins: []plugin.Descriptor{*d}}, group, resource)
		}
	}
	add("fail-everything", "plugins judge every resource", func(c *Call, d *plugin.Descriptor) bool {
		return fails(c) && everything(d)
	})
	add("nodes", "plugins judge nodes", about("", "nodes"))
	add("certificate-requests", "plugins judge requests for certificates",
		about("certificates.k8s.io", "certificatesigningrequests"))
	add("events", "plugins judge events", func(c *Call, d *plugin.Descriptor) bool {
		return fails(c) && namesResource(&Call{Plugins: []plugin.Descriptor{*d}}, "", "events")
	})
	if o.PerPlugin {
		lines = append(lines, "timeouts-add-up: the same replicas answer all of these webhooks")
	}
	return strings.Join(lines, "\n")
}
