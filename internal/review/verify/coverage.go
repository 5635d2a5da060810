// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
)

// Coverage counts how often cases have touched one thing: a policy, validation, webhook rule or
// LimitRange in the state of suites, or in the files of plugins.
type Coverage struct {
	Source    input.Source `json:"source"`
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	// Part is one of its validations or webhook rules, such as validations[0]; empty for the whole.
	Part string `json:"part,omitempty"`
	// Text is the text of the part.
	Text string `json:"text,omitempty"`
	// Cases is the number of cases that asked it. Hits is the number of cases that touched it: for a
	// validation the cases that violated it, otherwise the same as Cases.
	Cases int `json:"cases"`
	Hits  int `json:"hits"`
}

// Covered reports whether a case has touched it.
func (c *Coverage) Covered() bool { return c.Hits > 0 }

// observedCall is a call that was made for a case's requests.
type observedCall struct {
	plugin.Call
	plugin, namespace string
	target            matching.Target
}

// observer records the calls that are made while a case is judged, including those for its pods.
type observer struct {
	mu        sync.Mutex
	recording bool
	calls     []observedCall
}

func (o *observer) observe() plugin.Observer {
	take := func(step plugin.Step, calls []plugin.Call) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.recording {
			return
		}
		for _, call := range calls {
			o.calls = append(o.calls, observedCall{call, step.Plugin, step.Attributes.GetNamespace(),
				matching.TargetOf(step.Attributes)})
		}
	}
	return plugin.Observe{Want: plugin.Wants{Calls: true}, Step: func(_ context.Context, step plugin.Step) {
		take(step, step.Calls)
		if step.Enforcement != nil {
			step.Enforcement.Then(func(_ error, calls []plugin.Call) { take(step, calls) })
		}
	}}
}

func (o *observer) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recording, o.calls = true, nil
}

func (o *observer) end() []observedCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recording = false
	return o.calls
}

// coverageCounter counts the coverage of a suite's state.
type coverageCounter struct {
	all   []*Coverage
	rules map[*Coverage]*admissionregistrationv1.RuleWithOperations
	// hooks has the names of the webhooks of rules.
	hooks map[*Coverage]string
}

func newCoverageCounter(s *suite.Suite) *coverageCounter {
	c := &coverageCounter{rules: map[*Coverage]*admissionregistrationv1.RuleWithOperations{}, hooks: map[*Coverage]string{}}
	c.include(s.State)
	for i := range s.Cases {
		c.include(s.Cases[i].State)
	}
	return c
}

// include adds the things to cover among objects, each once.
func (c *coverageCounter) include(documents []input.Document) {
	for _, d := range documents {
		o := d.Object
		thing := Coverage{Source: d.Source, Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		if thing.Kind == "LimitRange" {
			thing.Namespace = input.NamespaceOf(o)
		}
		if slices.ContainsFunc(c.all, func(known *Coverage) bool {
			return known.Kind == thing.Kind && known.Namespace == thing.Namespace && known.Name == thing.Name
		}) {
			continue
		}
		switch o.GroupVersionKind().Group + "/" + o.GetKind() {
		case "admissionregistration.k8s.io/ValidatingAdmissionPolicy":
			c.all = append(c.all, &thing)
			validations, _, _ := unstructured.NestedSlice(o.Object, "spec", "validations")
			for i, v := range validations {
				fields, _ := v.(map[string]any)
				expression, _, _ := unstructured.NestedString(fields, "expression")
				part := thing
				part.Part, part.Text = fmt.Sprintf("validations[%d]", i), strings.TrimSpace(expression)
				c.all = append(c.all, &part)
			}
		case "admissionregistration.k8s.io/MutatingAdmissionPolicy":
			c.all = append(c.all, &thing)
		case "/LimitRange":
			c.all = append(c.all, &thing)
		case "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
			"admissionregistration.k8s.io/MutatingWebhookConfiguration":
			c.includeRules(o, thing)
		}
	}
}

// includeRules adds the rules of webhooks.
func (c *coverageCounter) includeRules(o *unstructured.Unstructured, thing Coverage) {
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, w := range webhooks {
		// Both kinds have the same fields there.
		var webhook admissionregistrationv1.ValidatingWebhook
		fields, _ := w.(map[string]any)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &webhook) != nil {
			continue
		}
		for i := range webhook.Rules {
			rule := &webhook.Rules[i]
			part := thing
			part.Part = fmt.Sprintf("%s rules[%d]", webhook.Name, i)
			part.Text = fmt.Sprintf("%v %s", rule.Operations, strings.Join(rule.Resources, ","))
			c.rules[&part], c.hooks[&part] = rule, webhook.Name
			c.all = append(c.all, &part)
		}
	}
}

// add counts the things that a case touched.
func (c *coverageCounter) add(calls []observedCall) {
	asked, hit := map[*Coverage]bool{}, map[*Coverage]bool{}
	for i := range calls {
		call := &calls[i]
		wouldBeAsked := call.Verdict == plugin.Skipped && strings.HasPrefix(call.Why, plugin.WouldBeAsked)
		if call.Verdict == plugin.Skipped && !wouldBeAsked {
			continue
		}
		for _, thing := range c.all {
			if !c.touches(thing, call) {
				continue
			}
			asked[thing] = true
			violated := call.Expression != "" && call.Verdict != plugin.Failed && call.Expression == thing.Text
			if !strings.HasPrefix(thing.Part, "validations") || violated {
				hit[thing] = true
			}
		}
	}
	for thing := range asked {
		thing.Cases++
	}
	for thing := range hit {
		thing.Hits++
	}
}

// touches reports whether a call was made for a thing.
func (c *coverageCounter) touches(thing *Coverage, call *observedCall) bool {
	switch call.Kind {
	case plugin.Policy:
		return thing.Kind == call.plugin && thing.Name == call.Name
	case plugin.LimitRange:
		return thing.Kind == "LimitRange" && thing.Name == call.Name && thing.Namespace == call.namespace
	case plugin.Webhook:
		rule := c.rules[thing]
		return rule != nil && thing.Name == call.Configuration && c.hooks[thing] == call.Name &&
			thing.Kind == strings.TrimSuffix(call.plugin, "AdmissionWebhook")+"WebhookConfiguration" &&
			matching.RuleMatchesAnyVersion(rule, call.target)
	}
	return false
}

// mergeCoverage adds up the coverage of the suites. Several suites may have the same file in their
// state.
func mergeCoverage(tasks []*task) []Coverage {
	type key struct {
		source           input.Source
		kind, name, part string
	}
	all := []Coverage{}
	at := map[key]int{}
	for _, t := range tasks {
		for _, c := range t.coverage.all {
			k := key{c.Source, c.Kind, c.Namespace + "/" + c.Name, c.Part}
			if i, ok := at[k]; ok {
				all[i].Cases += c.Cases
				all[i].Hits += c.Hits
				continue
			}
			at[k] = len(all)
			all = append(all, *c)
		}
	}
	slices.SortStableFunc(all, func(a, b Coverage) int {
		return cmp.Or(strings.Compare(a.Source.File, b.Source.File), a.Source.Line-b.Source.Line)
	})
	return all
}
