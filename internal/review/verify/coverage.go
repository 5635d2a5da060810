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

// Coverage says how often cases have touched one thing in the state of suites, or in the files of
// plugins.
type Coverage struct {
	Source    input.Source `json:"source"`
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	// Part is one of its validations or of a webhook's rules, as validations[0]; empty for the
	// whole.
	Part string `json:"part,omitempty"`
	// Text is the text of the part.
	Text string `json:"text,omitempty"`
	// Cases is the number of cases that asked it. Hits is the number that touched it: of a
	// validation those that violated it, otherwise the same.
	Cases int `json:"cases"`
	Hits  int `json:"hits"`
}

// Covered reports whether a case has touched it.
func (c *Coverage) Covered() bool { return c.Hits > 0 }

// observed is a call of a case's requests.
type observed struct {
	plugin.Call
	plugin, namespace string
	target            matching.Target
}

// observer takes down what is called while a case is judged, its pods included.
type observer struct {
	mu    sync.Mutex
	on    bool
	calls []observed
}

func (o *observer) observe() plugin.Observer {
	take := func(step plugin.Step, calls []plugin.Call) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.on {
			return
		}
		for _, call := range calls {
			o.calls = append(o.calls, observed{call, step.Plugin, step.Attributes.GetNamespace(),
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
	o.on, o.calls = true, nil
}

func (o *observer) end() []observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.on = false
	return o.calls
}

// covering counts the coverage of a suite's state.
type covering struct {
	all   []*Coverage
	rules map[*Coverage]*admissionregistrationv1.RuleWithOperations
	// hooks are the names of the webhooks that rules are of.
	hooks map[*Coverage]string
}

func newCovering(s *suite.Suite) *covering {
	c := &covering{rules: map[*Coverage]*admissionregistrationv1.RuleWithOperations{}, hooks: map[*Coverage]string{}}
	c.include(s.State)
	for i := range s.Cases {
		c.include(s.Cases[i].State)
	}
	return c
}

// include adds what there is to cover among objects, once.
func (c *covering) include(documents []input.Document) {
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
func (c *covering) includeRules(o *unstructured.Unstructured, thing Coverage) {
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

// add counts what a case touched.
func (c *covering) add(calls []observed) {
	asked, hit := map[*Coverage]bool{}, map[*Coverage]bool{}
	for i := range calls {
		call := &calls[i]
		wouldBeAsked := call.Verdict == plugin.Skipped && strings.HasPrefix(call.Why, plugin.WouldBeAsked)
		if call.Verdict == plugin.Skipped && !wouldBeAsked {
			continue
		}
		for _, thing := range c.all {
			if !c.is(thing, call) {
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

// is reports whether a call is one of the thing.
func (c *covering) is(thing *Coverage, call *observed) bool {
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

// merge adds up what the suites have covered: the same thing of a file is in many.
func merge(tasks []*task) []Coverage {
	type key struct {
		source           input.Source
		kind, name, part string
	}
	all := []Coverage{}
	at := map[key]int{}
	for _, t := range tasks {
		for _, c := range t.covering.all {
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
