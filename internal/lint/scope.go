// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/inventory"
)

var scopeRules = []Rule{
	{"fail-everything", Error, "a webhook under Fail has rules over everything", (*linting).failEverything},
	{"leases", Error, "a webhook is asked about the leases of nodes and controllers", (*linting).leases},
	{"nodes", Error, "a webhook is asked about the registration and the statuses of nodes", (*linting).nodes},
	{"certificate-requests", Error, "a webhook is asked about nodes' requests for certificates",
		(*linting).certificateRequests},
	{"events", Warning, "a webhook is asked about events", (*linting).events},
}

// isEverything reports whether a rule is for all resources of all groups.
func isEverything(r *admissionregistrationv1.RuleWithOperations) bool {
	return slices.Contains(r.APIGroups, "*") &&
		(slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*"))
}

// hasWrites reports whether a rule is for operations that change something.
func hasWrites(r *admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(r.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o != admissionregistrationv1.Connect
	})
}

func (l *linting) failEverything() {
	for _, w := range l.Webhooks {
		if !w.Fails() {
			continue
		}
		for i := range w.Rules {
			if !isEverything(&w.Rules[i]) || !hasWrites(&w.Rules[i]) {
				continue
			}
			// Selectors and conditions may leave little of everything.
			words := l.asked(w, append(inventory.Healing(inventory.AnyNamespace), inventory.Anything()...)...)
			if len(words) > 0 {
				l.add(at(w, "rules"), Error, change{},
					"its rules are for every resource, and failurePolicy is Fail: while it can't be reached, nearly every "+
						"write of the cluster is refused, such as "+sentence(words),
					"name the resources that it judges, set failurePolicy to Ignore, or select the namespaces that take part "+
						"with namespaceSelector")
				break
			}
		}
	}
}

// names reports whether a rule of a webhook names a resource, other than by a wildcard.
func names(w *inventory.Webhook, groups []string, resource string) bool {
	return slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups, func(g string) bool { return slices.Contains(groups, g) }) &&
			slices.ContainsFunc(r.Resources, func(pattern string) bool {
				name, _, _ := strings.Cut(pattern, "/")
				return name == resource
			})
	})
}

// system adds a finding if a webhook is asked about writes that keep the cluster alive, under Fail or by a
// wildcard. A webhook under Ignore whose rules name the resource wants to be asked.
func (l *linting) system(groups []string, resource string, safe bool, writes []*inventory.Write, why string) {
	for _, w := range l.Webhooks {
		named := names(w, groups, resource)
		if named && !w.Fails() {
			continue
		}
		words := l.asked(w, writes...)
		if len(words) == 0 {
			continue
		}
		happens := outage(w, words)
		if w.Fails() || l.rule.Severity == Warning {
			happens += ". " + why
		}
		if !named {
			happens = "a wildcard in its rules includes " + resource + ": " + happens
		}
		severity := bySeverity(w.Fails())
		if l.rule.Severity == Warning {
			severity = Warning
		}
		l.add(at(w, "rules"), severity, l.exceptResource(w, safe && !named, l.rule.ID, groups[0], resource), happens,
			"leave them out of its rules, or out of its match conditions")
	}
}

func (l *linting) leases() {
	l.system([]string{"coordination.k8s.io"}, "leases", true, inventory.NodeLeases(),
		"A node that can't renew its lease counts as dead after 40 seconds, and its pods are evicted; controllers lose "+
			"their leadership and stop")
}

func (l *linting) nodes() {
	l.system([]string{""}, "nodes", false, inventory.Nodes(),
		"Nodes can't join the cluster or say how they are")
}

func (l *linting) certificateRequests() {
	l.system([]string{"certificates.k8s.io"}, "certificatesigningrequests", false, inventory.CertificateRequests(),
		"Nodes can't join the cluster or renew their certificates")
}

func (l *linting) events() {
	l.system([]string{"", "events.k8s.io"}, "events", true, inventory.Events(),
		"Events are many, and most of all in an outage: the webhook is asked about each, and they are what an outage is "+
			"explained by")
}
