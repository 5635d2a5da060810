// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// applying is the spec of a policy with an ApplyConfiguration.
func applying(expression string) string {
	return "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: '" + expression + "'}}]"
}

func label(key, value string) string {
	return `Object{metadata: Object.metadata{labels: {"` + key + `": ` + value + `}}}`
}

// Observers receive a call for each policy with each binding and params, with its changes.
func TestObserversOfMutations(t *testing.T) {
	limited := mutatingOf(t, "limited", "{paramKind: {apiVersion: example.com/v1, kind: Limit}, "+
		applying(label("max", "string(params.spec.max)"))+"}")
	elsewhere := mutatingOf(t, "elsewhere", applying("Object{}"))
	read(t, `{objectSelector: {matchLabels: {tier: back}}}`, elsewhere.Spec.MatchConstraints)
	c := cluster(t, limit("one", 1), limit("two", 2), elsewhere, mutatingBinding(t, "elsewhere", ""),
		limited, mutatingBinding(t, "limited", `{paramRef: {selector: {}, parameterNotFoundAction: Deny}}`),
		mutatingOf(t, "conditional",
			`{matchConditions: [{name: never, expression: "false"}], `+applying("Object{}")+"}"),
		mutatingBinding(t, "conditional", ""),
		mutatingOf(t, "erring", "{failurePolicy: Ignore, "+applying(label("a", "object.nope"))+"}"),
		mutatingBinding(t, "erring", ""),
		mutatingOf(t, "idle", applying(label("app", `"web"`))), mutatingBinding(t, "idle", ""),
		mutatingOf(t, "wrong", applying("Object{nope: 1}")), mutatingBinding(t, "wrong", ""))
	subject := c.Build(t, mutatingDescriptor, "").Built
	d := mutatingDescriptor
	d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return subject, nil }
	var calls []plugin.Call
	admit, err := chain.New([]plugin.Descriptor{d}, nil, c.Env, plugin.Observe{Want: plugin.Wants{Calls: true},
		Step: func(_ context.Context, step plugin.Step) { calls = step.Calls }})
	if err != nil {
		t.Fatal(err)
	}
	if err := admit.Admit(t.Context(), create(), interfaces); err == nil {
		t.Error("the request should be refused")
	}
	changed := map[string]string{}
	for i := range calls {
		operations, err := calls[i].Changes.Patch()
		if err != nil {
			t.Error(err)
		}
		for _, o := range operations {
			changed[calls[i].Param] += o.Op + " " + o.Path + " " + string(o.Value)
		}
		calls[i].Changes = nil
		calls[i].Kind, calls[i].Start, calls[i].Duration = "", time.Time{}, 0
	}
	want := []plugin.Call{
		// Which policies the request concerns is known before the first is evaluated.
		{Name: "elsewhere", Verdict: plugin.Skipped, Why: "objectSelector doesn't select the object"},
		{Name: "conditional", Binding: "conditional-binding", Verdict: plugin.Skipped,
			Why: `match condition "never" is false`},
		{Name: "erring", Binding: "erring-binding", Verdict: plugin.Failed, Ignored: true,
			Why: `expression '` + label("a", "object.nope") + `' resulted in error: no such key: nope ` +
				"(spec.mutations[0].applyConfiguration.expression)"},
		{Name: "idle", Binding: "idle-binding", Verdict: plugin.Admitted},
		{Name: "limited", Binding: "limited-binding", Param: "one", Verdict: plugin.Admitted},
		{Name: "limited", Binding: "limited-binding", Param: "two", Verdict: plugin.Admitted},
		{Name: "wrong", Binding: "wrong-binding", Verdict: plugin.Failed,
			Why: "error applying patch: failed to convert patch object to typed object: .nope: field not " +
				"declared in schema (spec.mutations[0].applyConfiguration.expression)"},
	}
	if diff := cmp.Diff(want, calls, cmpopts.IgnoreUnexported(jsondiff.Changes{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"one": `add /metadata/labels/max "1"`,
		"two": `replace /metadata/labels/max "2"`}, changed); diff != "" {
		t.Errorf("the policies' changes: %s", diff)
	}
}

// A request whose time is over is not let pass with what could not be evaluated, whatever the
// failure policy.
func TestMutatingOutOfTime(t *testing.T) {
	subject := startMutating(t, mutatingOf(t, "p", "{failurePolicy: Ignore, "+applying(label("a", `"b"`))+"}"),
		mutatingBinding(t, "p", "")).Built.(*Mutating)
	if err := subject.Admit(t.Context(), create(), interfaces); err != nil { // it is ready then
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := subject.Admit(ctx, create(), interfaces); !apierrors.IsTimeout(err) {
		t.Errorf("got %v", err)
	}
}

// The options of a connection are an object, too.
func TestMutatingConnect(t *testing.T) {
	p := mutatingOf(t, "p", `mutations: [{patchType: JSONPatch, jsonPatch: {expression: `+
		`'[JSONPatch{op: "replace", path: "/command/0", value: "true"}]'}}]`)
	p.Spec.MatchConstraints = resources("pods/exec")
	subject := startMutating(t, p, mutatingBinding(t, "p", ""))
	result := subject.Admit(t, plugintest.Connect(pod("web", "a:1"), "exec",
		&corev1.PodExecOptions{Command: []string{"sh"}})).Admitted(t)
	if got := result.Object.(*corev1.PodExecOptions).Command[0]; got != "true" {
		t.Errorf("the command is %q", got)
	}
}

// Policies that change nothing have nothing run once more.
func TestNothingChanged(t *testing.T) {
	subject := startMutating(t, mutatingOf(t, "p", "{reinvocationPolicy: IfNeeded, "+
		applying(label("app", `"web"`))+"}"), mutatingBinding(t, "p", "")).Built.(*Mutating)
	a := create()
	if err := subject.Admit(t.Context(), a, interfaces); err != nil || a.GetReinvocationContext().ShouldReinvoke() {
		t.Errorf("%v; run once more: %v", err, a.GetReinvocationContext().ShouldReinvoke())
	}
	// Somebody else has it run, after a change or without.
	a.GetReinvocationContext().SetIsReinvoke()
	for _, app := range []string{"web", "other"} {
		a.GetObject().(*corev1.Pod).Labels["app"] = app
		if err := subject.Admit(t.Context(), a, interfaces); err != nil {
			t.Fatal(err)
		}
		if got := a.GetObject().(*corev1.Pod).Labels["app"]; got != "web" {
			t.Errorf("the label is %q", got)
		}
	}
}

var fuzzed = expression.NewCompiler()

// FuzzMutating evaluates arbitrary expressions. Nothing panics, a refused request leaves the object
// unchanged, and every evaluation ends within its budget.
func FuzzMutating(f *testing.F) {
	for _, seed := range []string{
		label("a", `"b"`), `Object{spec: object.spec}`, `Object{spec: Object.spec{containers: object.spec.containers}}`,
		`[JSONPatch{op: "add", path: "/spec", value: {}}]`, `[JSONPatch{op: "replace", path: ""}]`,
		`object.spec.containers.map(c, JSONPatch{op: "test", path: "/kind", value: c})`,
		`[JSONPatch{op: "add", path: "/metadata/labels", value: variables}]`, `Object{metadata: dyn(authorizer)}`,
		`Object{metadata: Object.metadata{labels: dyn({1: null, "a": [b"x", 1u, 1.5, duration("1s"), type(1)]})}}`,
		`Object{x: [[1]], y: [{"a": Object{}}], z: optional.of(quantity("1"))}`,
		`[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, "x" + string(a))).size() > 3 ? Object{} : Object{}`,
	} {
		f.Add(seed)
	}
	subject := startMutating(f).Built.(*Mutating)
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range []admissionregistrationv1.Mutation{
			{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: text}},
			{PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: text}},
		} {
			p := mutatingOf(t, "p", "")
			p.Spec.Mutations = []admissionregistrationv1.Mutation{m}
			one := *subject
			e := *subject.engine
			s := newSnapshot([]boundPolicy[*mutations]{{definition: defineMutating(fuzzed, p, false),
				bindings: []*binding{bindMutating(mutatingBinding(t, "p", ""), false)}}})
			e.snapshot = func() *snapshot[*mutations] { return s }
			one.engine = &e
			a := create()
			given := a.GetObject().DeepCopyObject()
			start := time.Now()
			err := one.Admit(t.Context(), a, interfaces)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if err == nil {
				if _, err := runtime.DefaultUnstructuredConverter.ToUnstructured(a.GetObject()); err != nil {
					t.Error(err)
				}
			} else if diff := cmp.Diff(given, a.GetObject()); diff != "" {
				t.Errorf("after %v the object has changed: %s", err, diff)
			}
		}
	})
}
