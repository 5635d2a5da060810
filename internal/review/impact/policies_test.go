// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/plugin"
)

// caller is a plugin that labels objects, and reports calls. In its validating phase it returns an error.
type caller struct {
	label     string
	mutations []plugin.Call
	calls     []plugin.Call
	err       error
}

func (c *caller) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	before := a.GetObject().DeepCopyObject()
	if c.label != "" {
		a.GetObject().(*corev1.Pod).Labels = map[string]string{c.label: ""}
	}
	for _, call := range c.mutations {
		if call.Name == c.label {
			call.Changes = plugin.ChangesBetween(before, a.GetObject())
		}
		plugin.CallsOf(a).Add(call)
	}
	return nil
}

func (c *caller) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	for _, call := range c.calls {
		plugin.CallsOf(a).Add(call)
	}
	return c.err
}

// decide returns the decision on a pod that a recorder makes if a chain has the plugin.
func decide(t *testing.T, c *caller) *v1alpha1.Decision {
	t.Helper()
	recorder := decision.NewRecorder(decision.NewStore("server", 1, 1<<20), decision.ValuesHidden)
	plugins := []plugin.Descriptor{{Name: "Caller", Phases: plugin.Mutating | plugin.Validating,
		Operations: []admission.Operation{admission.Create},
		New:        func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return c, nil }}}
	admitting, err := chain.New(plugins, nil, nil, recorder)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "", admission.Create, nil, false,
		&user.DefaultInfo{Name: "alice"})
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "pods",
		Namespace: "shop", Name: "web"}
	return decision.Decide(audit.WithAuditContext(t.Context()), info, "", decision.ValuesHidden,
		func(ctx context.Context) (int, *metav1.Status) {
			interfaces := admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)
			err := admitting.Admit(ctx, a, interfaces)
			if err == nil {
				err = admitting.Validate(ctx, a, interfaces)
			}
			if err != nil {
				return http.StatusForbidden, &metav1.Status{Message: err.Error()}
			}
			return http.StatusCreated, nil
		})
}

// The decisions of the recorder say who refuses, who changes and who warns.
func TestPoliciesOfDecisions(t *testing.T) {
	refusal := errors.New("no")
	policy := func(name string, verdict plugin.Verdict) plugin.Call {
		return plugin.Call{Kind: plugin.Policy, Name: name, Binding: "b", Expression: "1 > 2", Verdict: verdict}
	}
	ignored, warning := policy("ignored", plugin.Failed), policy("warns", plugin.Admitted)
	ignored.Ignored = true
	warning.Warnings = []string{"careful"}
	named := func(name string) Policy {
		return Policy{Plugin: "Caller", Kind: "Policy", Name: name, Binding: "b", Expression: "1 > 2"}
	}
	whole := []Policy{{Plugin: "Caller"}}
	for name, test := range map[string]struct {
		caller                       caller
		refusers, changers, warnings []Policy
	}{
		"nothing happens": {caller{calls: []plugin.Call{policy("a", plugin.Admitted)}}, nil, nil, nil},
		"a policy refuses": {caller{calls: []plugin.Call{policy("a", plugin.Refused), policy("b", plugin.Admitted),
			policy("c", plugin.Skipped)}, err: refusal}, []Policy{named("a")}, nil, nil},
		"two refuse, one of them twice": {caller{calls: []plugin.Call{policy("a", plugin.Refused),
			policy("b", plugin.Failed), policy("a", plugin.Refused)}, err: refusal}, []Policy{named("a"), named("b")}, nil,
			nil},
		"one fails open":             {caller{calls: []plugin.Call{ignored}}, nil, nil, nil},
		"one fails open, the plugin": {caller{calls: []plugin.Call{ignored}, err: refusal}, whole, nil, nil},
		"a trial would refuse": {caller{calls: []plugin.Call{{Kind: plugin.Trial, Name: "Caller",
			Verdict: plugin.Refused}}}, nil, nil, nil},
		"the plugin refuses": {caller{err: refusal}, whole, nil, nil},
		"the plugin changes": {caller{label: "a"}, nil, whole, nil},
		"a policy changes, another does not": {caller{label: "a", mutations: []plugin.Call{policy("a", plugin.Admitted),
			policy("b", plugin.Admitted)}}, nil, []Policy{named("a")}, nil},
		"one changes and one refuses": {caller{label: "a", mutations: []plugin.Call{policy("a", plugin.Admitted)},
			calls: []plugin.Call{policy("b", plugin.Refused)}, err: refusal}, []Policy{named("b")}, []Policy{named("a")}, nil},
		"one warns": {caller{calls: []plugin.Call{warning}}, nil, nil, []Policy{named("warns")}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(t, &test.caller)
			for _, of := range []struct {
				title     string
				want, got []Policy
			}{
				{"refusers", test.refusers, PoliciesOf(d)}, {"changers", test.changers, ChangersBeside(d, nil)},
				{"warners", test.warnings, WarnersBeside(d, nil)},
			} {
				if diff := cmp.Diff(of.want, of.got); diff != "" {
					t.Errorf("%s: -want +got:\n%s", of.title, diff)
				}
			}
		})
	}
	if PoliciesOf(nil) != nil || ChangersBeside(nil, nil) != nil || WarnersBeside(nil, nil) != nil {
		t.Error("without a decision there are policies")
	}
}

// changed returns the decision of a plugin that changes one field.
func changed(plugin, op, path, value string) *v1alpha1.Decision {
	o := v1alpha1.PatchOperation{Op: op, Path: path}
	if value != "" {
		o.Value = &v1alpha1.Value{Raw: []byte(value)}
	}
	return &v1alpha1.Decision{Verdict: v1alpha1.Admitted, Steps: []v1alpha1.Step{{Plugin: plugin, Verdict: v1alpha1.Admitted,
		Patch: []v1alpha1.PatchOperation{o}}}}
}

// both returns a decision with the steps of two.
func both(a, b *v1alpha1.Decision) *v1alpha1.Decision {
	return &v1alpha1.Decision{Verdict: v1alpha1.Admitted, Steps: slices.Concat(a.Steps, b.Steps)}
}

// A change has the value of the field on both sides, and those who make the difference.
func TestChangesBeside(t *testing.T) {
	none := &v1alpha1.Decision{Verdict: v1alpha1.Admitted}
	tolerations := changed("DefaultTolerationSeconds", "add", "/spec/tolerations", "[]")
	sent := func(pointer string) *v1alpha1.Value {
		if pointer == "/a" {
			return &v1alpha1.Value{Raw: []byte("0")}
		}
		return nil
	}
	for name, test := range map[string]struct {
		a, b     *v1alpha1.Decision
		shown    []string
		changers []string
	}{
		"another value":      {changed("P", "add", "/a", "1"), changed("P", "add", "/a", "2"), []string{"- a: 2", "+ a: 1"}, []string{"P"}},
		"another path":       {changed("P", "add", "/a", "1"), changed("P", "add", "/b", "1"), []string{"+ a: 1", "- b: 1"}, []string{"P"}},
		"beside no changes":  {changed("P", "add", "/a", "1"), none, []string{"+ a: 1"}, []string{"P"}},
		"beside nothing":     {changed("P", "add", "/a", "1"), nil, []string{"+ a: 1"}, []string{"P"}},
		"what was sent":      {changed("P", "replace", "/a", "1"), none, []string{"- a: 0", "+ a: 1"}, []string{"P"}},
		"removed":            {changed("P", "remove", "/a", ""), none, []string{"- a: 0"}, []string{"P"}},
		"removed, unknown":   {changed("P", "remove", "/c", ""), none, []string{"- c"}, []string{"P"}},
		"not added any more": {none, changed("P", "add", "/a", "1"), []string{"- a: 1"}, []string{"P"}},
		"not set any more":   {none, changed("P", "replace", "/a", "1"), []string{"- a: 1", "+ a: 0"}, []string{"P"}},
		"by another plugin":  {changed("P", "add", "/a", "1"), changed("Q", "add", "/a", "1"), nil, []string{"P", "Q"}},
		"beside what is alike": {both(changed("P", "add", "/a", "1"), tolerations), both(changed("P", "add", "/a", "2"), tolerations),
			[]string{"- a: 2", "+ a: 1"}, []string{"P"}},
		"random names": {changed("P", "add", "/a", `{"name": "kube-api-access-abc12"}`),
			changed("P", "add", "/a", `{"name": "kube-api-access-xyz78"}`), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.shown, shownChanges(ChangesBeside(test.a, test.b, sent))); diff != "" {
				t.Errorf("changes: -want +got:\n%s", diff)
			}
			var changers []string
			for _, p := range slices.Concat(ChangersBeside(test.a, test.b), ChangersBeside(test.b, test.a)) {
				if !slices.Contains(changers, p.Plugin) {
					changers = append(changers, p.Plugin)
				}
			}
			if diff := cmp.Diff(test.changers, changers); diff != "" {
				t.Errorf("changers: -want +got:\n%s", diff)
			}
		})
	}
}
