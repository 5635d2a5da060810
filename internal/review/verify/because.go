// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// maxCauses bounds the causes of a case.
const maxCauses = 10

// causes collects why the policies, webhooks, quotas and LimitRanges of a case didn't do what the case expects.
type causes struct {
	// wants reports whether the case is about a part of a plugin, or about the plugin if name is empty.
	wants    func(plugin, name string) bool
	decision *v1alpha1.Decision
	// named reports whether the case names the plugin.
	named bool
	// seen has the parts that the server told of, as plugin/name.
	seen map[string]bool
	all  []string
}

// because returns why a case that expects a refusal, a change or calls of webhooks got none: what the server says
// of the parts that it asked or skipped, and of the others of the state why it didn't ask them.
func (w *worker) because(t *task, c *suite.Case, r *review.Result, differences []suite.Difference) []string {
	miss := missOf(c, r, differences)
	if miss == nil || miss.decision == nil {
		return nil
	}
	b := &causes{wants: miss.wants, decision: miss.decision, named: miss.by != "", seen: map[string]bool{}}
	b.addCalls()
	b.addDocuments(w.static)
	b.addDocuments(slices.Concat(t.State, c.State, c.Before))
	named, part, _ := strings.Cut(miss.by, "/")
	if len(b.all) == 0 && miss.wants(named, part) {
		b.add(w.explainPlugin(named, part, miss.decision))
	}
	if more := len(b.all) - maxCauses; more > 0 {
		b.all = append(b.all[:maxCauses], fmt.Sprintf("%d more", more))
	}
	return b.all
}

// miss is what a case expects of a part of a plugin and didn't get.
type miss struct {
	// wants reports whether the case is about a part of a plugin, or about the plugin if name is empty.
	wants func(plugin, name string) bool
	// by is the part that the case names, as plugin/name, or empty.
	by string
	// decision is the decision in which the part is missed: on the case's object or on a pod of it.
	decision *v1alpha1.Decision
}

// missOf returns what a case misses. It returns nil if the case misses nothing of the kind.
func missOf(c *suite.Case, r *review.Result, differences []suite.Difference) *miss {
	differs := func(field string) bool {
		return slices.ContainsFunc(differences, func(d suite.Difference) bool {
			return d.Field == field || strings.HasPrefix(d.Field, field+".")
		})
	}
	expect := &c.Expect
	switch {
	case expect.Verdict == string(v1alpha1.Refused) && (r.Verdict == v1alpha1.Admitted || differs("by")):
		return missedRefusal(expect.By, r.Decision)
	case differs("webhooks"):
		return &miss{decision: r.Decision,
			wants: func(of, called string) bool { return slices.Contains(expect.Webhooks, called) }}
	case differs(objectField):
		return &miss{decision: r.Decision,
			wants: func(of, _ string) bool { return strings.HasPrefix(of, "Mutating") }}
	case expect.Pods != nil && len(r.Pods) > 0:
		pods := &r.Pods[0]
		if differs("pods.by") && pods.Decision != nil {
			return missedRefusal(expect.Pods.By, pods.Decision)
		}
		if want := expect.Pods.Admitted; want != nil && *want < pods.Admitted {
			return missedRefusal(expect.Pods.By, pods.Admission())
		}
	}
	return nil
}

// missedRefusal returns the miss of a refusal, of which the case may name the part.
func missedRefusal(by string, d *v1alpha1.Decision) *miss {
	name, part, _ := strings.Cut(by, "/")
	return &miss{by: by, decision: d, wants: func(of, called string) bool {
		if name == "" {
			return !strings.HasPrefix(of, "Mutating")
		}
		return of == name && (part == "" || called == part)
	}}
}

// add adds a cause, once.
func (b *causes) add(text string) {
	if text != "" && !slices.Contains(b.all, text) {
		b.all = append(b.all, text)
	}
}

// addCalls adds what the server says of the parts that it asked or skipped.
func (b *causes) addCalls() {
	for i := range b.decision.Steps {
		step := &b.decision.Steps[i]
		for j := range step.Calls {
			call := &step.Calls[j]
			b.seen[step.Plugin+"/"+call.Name] = true
			if !b.wants(step.Plugin, call.Name) || step.Phase == "Mutate" && !strings.HasPrefix(step.Plugin, "Mutating") {
				continue
			}
			name := step.Plugin + " " + call.Name
			if call.Binding != "" {
				name += " with binding " + call.Binding
			}
			if call.Param != "" {
				name += " and param " + call.Param
			}
			switch {
			case call.Verdict == v1alpha1.Skipped:
				b.add(name + ": " + call.Why)
			case call.Verdict == v1alpha1.Failed && call.FailedOpen:
				b.add(name + ": it failed, and its failures are ignored: " + call.Why)
			case call.Verdict == v1alpha1.Admitted && len(call.Patch) == 0 && (b.named || isAsked(call)):
				b.add(name + ": " + cmp.Or(call.Why, "it was asked, and admits the request"))
			}
		}
	}
}

// isAsked reports whether a call is a question to a policy or a webhook, rather than a limit that the request keeps.
func isAsked(c *v1alpha1.Call) bool {
	return c.Kind == string(plugin.Policy) || c.Kind == string(plugin.Webhook)
}

// target returns the part of the request on which rules depend.
func (b *causes) target() matching.Target {
	of := &b.decision.Request
	return matching.Target{Operation: admission.Operation(of.Operation), Subresource: of.Subresource,
		Resource:   schema.GroupVersionResource{Group: of.Group, Version: of.Version, Resource: of.Resource},
		Namespaced: of.Namespace != ""}
}

// addDocuments adds why policies and webhooks among objects weren't asked, of which the server said nothing.
func (b *causes) addDocuments(documents []input.Document) {
	bindings := bindingsAmong(documents)
	for _, d := range documents {
		of := d.Object.GroupVersionKind()
		if of.Group != admissionregistrationv1.GroupName {
			continue
		}
		name := d.Object.GetName()
		if ofWebhooks, ok := strings.CutSuffix(of.Kind, "WebhookConfiguration"); ok {
			b.addWebhooks(d.Object, ofWebhooks+"AdmissionWebhook")
			continue
		}
		if !strings.HasSuffix(of.Kind, "AdmissionPolicy") || b.seen[of.Kind+"/"+name] || !b.wants(of.Kind, name) {
			continue
		}
		b.seen[of.Kind+"/"+name] = true
		b.addPolicy(d.Object, bindings[of.Kind+"Binding/"+name])
	}
}

// policyBinding is what a binding says of the requests for which it binds its policy.
type policyBinding struct {
	name  string
	rules []admissionregistrationv1.RuleWithOperations
}

// bindingsAmong returns the bindings among objects, by their kind and the policy that they name.
func bindingsAmong(documents []input.Document) map[string][]policyBinding {
	all := map[string][]policyBinding{}
	for _, d := range documents {
		if kind := d.Object.GetKind(); strings.HasSuffix(kind, "AdmissionPolicyBinding") {
			policy, _, _ := unstructured.NestedString(d.Object.Object, "spec", "policyName")
			all[kind+"/"+policy] = append(all[kind+"/"+policy],
				policyBinding{d.Object.GetName(), rulesAt(d.Object, "spec", "matchResources", "resourceRules")})
		}
	}
	return all
}

// rulesAt returns the rules of a field of an object.
func rulesAt(o *unstructured.Unstructured, path ...string) []admissionregistrationv1.RuleWithOperations {
	items, _, _ := unstructured.NestedSlice(o.Object, path...)
	var rules []admissionregistrationv1.RuleWithOperations
	for _, item := range items {
		var rule admissionregistrationv1.RuleWithOperations
		fields, _ := item.(map[string]any)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &rule) == nil {
			rules = append(rules, rule)
		}
	}
	return rules
}

// addPolicy adds why the server didn't ask a policy.
func (b *causes) addPolicy(policy *unstructured.Unstructured, bindings []policyBinding) {
	name := policy.GetKind() + " " + policy.GetName()
	target := b.target()
	if len(bindings) == 0 {
		b.add(name + ": no " + policy.GetKind() + "Binding names it")
		return
	}
	if rules := rulesAt(policy, "spec", "matchConstraints", "resourceRules"); len(rules) > 0 {
		if why := matching.ExplainRules(rules, target); why != matching.Matches {
			b.add(name + ": " + string(why))
			return
		}
	}
	for _, binding := range bindings {
		if len(binding.rules) == 0 {
			continue
		}
		if why := matching.ExplainRules(binding.rules, target); why != matching.Matches {
			b.add(name + " with binding " + binding.name + ": " + string(why))
		}
	}
}

// addWebhooks adds why the server didn't ask the webhooks of a configuration.
func (b *causes) addWebhooks(configuration *unstructured.Unstructured, plugin string) {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, item := range webhooks {
		fields, _ := item.(map[string]any)
		webhook := &unstructured.Unstructured{Object: fields}
		name, _, _ := unstructured.NestedString(fields, "name")
		if b.seen[plugin+"/"+name] || !b.wants(plugin, name) {
			continue
		}
		if why := matching.ExplainRules(rulesAt(webhook, "rules"), b.target()); why != matching.Matches {
			b.add(plugin + " " + name + ": " + string(why))
		}
	}
}

// explainPlugin returns why a plugin that a case names did nothing, or a part of it. Without a name it says that
// nothing could refuse the request.
func (w *worker) explainPlugin(name, part string, d *v1alpha1.Decision) string {
	running := w.reviewer.Plugins()
	switch {
	case name == "":
		return "nothing was asked that could refuse it: the state has no policy, webhook, quota or LimitRange for it"
	case !slices.Contains(plugin.Names(w.Plugins), name):
		return fmt.Sprintf("%s: no plugin has this name%s", name, nearest.Meant(name, plugin.Names(w.Plugins)))
	case !slices.Contains(plugin.Names(running), name):
		return name + ": this plugin isn't enabled: name it in the suite's flags, with --enable-admission-plugins"
	case d.Verdict == v1alpha1.Refused:
		return fmt.Sprintf("%s: %s refused the request before", name, cmp.Or(d.By, "the API"))
	case part != "":
		return fmt.Sprintf("%s %s: the state has none of this name, or it isn't about %s of %s", name, part,
			d.Request.Operation, resourceText(&d.Request))
	}
	if !slices.ContainsFunc(d.Steps, func(s v1alpha1.Step) bool { return s.Plugin == name }) {
		return fmt.Sprintf("%s: this plugin isn't asked about %s of %s", name, d.Request.Operation, resourceText(&d.Request))
	}
	return name + ": it was asked, and admits the request"
}

// resourceText returns the resource of a request, with its subresource.
func resourceText(r *v1alpha1.Request) string {
	if r.Subresource != "" {
		return r.Resource + "/" + r.Subresource
	}
	return r.Resource
}
