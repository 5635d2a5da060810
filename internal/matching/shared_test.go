// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/policy"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/webhook"
)

// counting counts how often it is put into the form that expressions see.
type counting struct {
	*unstructured.Unstructured
	conversions int
}

func (c *counting) UnstructuredContent() map[string]any {
	c.conversions++
	return c.Unstructured.UnstructuredContent()
}

var (
	interfaces = admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)
	rule       = admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"*"},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"pods"}, Scope: ptr.To(admissionregistrationv1.AllScopes)},
	}
	everything  = &metav1.LabelSelector{}
	ruleMatches = &admissionregistrationv1.MatchResources{NamespaceSelector: everything, ObjectSelector: everything,
		MatchPolicy:   ptr.To(admissionregistrationv1.Exact),
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}}
)

// excluded returns webhooks that don't answer and that the condition excludes.
func excluded(condition string) (*admissionregistrationv1.MutatingWebhook,
	*admissionregistrationv1.ValidatingWebhook) {
	nobody, conditions := "https://127.0.0.1:1/", []admissionregistrationv1.MatchCondition{{Name: "c",
		Expression: condition}}
	m := &admissionregistrationv1.MutatingWebhook{Name: "w",
		ClientConfig:  admissionregistrationv1.WebhookClientConfig{URL: &nobody},
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchPolicy: ptr.To(admissionregistrationv1.Exact),
		NamespaceSelector: everything, ObjectSelector: everything, TimeoutSeconds: ptr.To[int32](1),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{rule}, MatchConditions: conditions}
	v := &admissionregistrationv1.ValidatingWebhook{Name: m.Name, ClientConfig: m.ClientConfig,
		FailurePolicy: m.FailurePolicy, MatchPolicy: m.MatchPolicy, NamespaceSelector: everything,
		ObjectSelector: everything, TimeoutSeconds: m.TimeoutSeconds, SideEffects: m.SideEffects,
		AdmissionReviewVersions: m.AdmissionReviewVersions, Rules: m.Rules, MatchConditions: conditions}
	return m, v
}

// objects are n policies of each kind that admit a pod and change nothing but as patch says, and
// one webhook of each kind that condition excludes.
func objects(n int, patch, condition string) []runtime.Object {
	mutating, validating := excluded(condition)
	all := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{*mutating}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{*validating}},
		&admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "m"},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConstraints: ruleMatches,
				FailurePolicy:      ptr.To(admissionregistrationv1.Fail),
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "changes",
					Expression: fmt.Sprintf("object.metadata.name == 'web' && %t", patch != "")}},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "[" + patch + "]"}}}}},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "m"},
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "m"}},
	}
	for i := range n {
		named := metav1.ObjectMeta{Name: fmt.Sprintf("p%03d", i)}
		all = append(all, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: named,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: ruleMatches,
				FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				Validations: []admissionregistrationv1.Validation{{
					Expression: fmt.Sprintf("object.metadata.name != 'nope-%d'", i)}}}},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named,
				Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: named.Name,
					ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})
	}
	return all
}

// apart hides from a plugin what the others share.
type apart struct {
	plugin.Mutator
	plugin.Validator
}

func (p apart) Handles(admission.Operation) bool { return true }

func (p apart) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Mutator.Admit(ctx, struct{ admission.Attributes }{a}, o)
}

func (p apart) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Validator.Validate(ctx, struct{ admission.Attributes }{a}, o)
}

// plugins are a chain of the four that policies and webhooks are in, with another mutating one
// between these.
func plugins(t testing.TB, sharing bool, between func(admission.Attributes), all ...runtime.Object) *chain.Chain {
	t.Helper()
	c := plugintest.NewCluster(t, all...)
	c.Serve(runtime.NewScheme(), nil)
	c.Env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	c.Env.RESTMapper = meta.NewDefaultRESTMapper(nil)
	var list []plugin.Descriptor
	add := func(name string, phases plugin.Phase, build func(io.Reader, *plugin.Env) (plugin.Plugin, error)) {
		subject := c.Build(t, plugin.Descriptor{Name: name, Phases: phases, Operations: plugin.EveryOperation, Server: plugin.Server{Only: "it is the server's"},
			New: build}, "").Built
		if !sharing {
			hidden := apart{}
			hidden.Mutator, _ = subject.(plugin.Mutator)
			hidden.Validator, _ = subject.(plugin.Validator)
			subject = hidden
		}
		list = append(list, plugin.Descriptor{Name: name, Phases: phases, Operations: plugin.EveryOperation,
			New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return subject, nil }})
	}
	add("MP", plugin.Mutating, func(r io.Reader, e *plugin.Env) (plugin.Plugin, error) {
		return policy.NewMutating(r, e)
	})
	list = append(list, plugin.Descriptor{Name: "B", Phases: plugin.Mutating, Operations: plugin.EveryOperation,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return changing(between), nil }})
	add("MW", plugin.Mutating, func(r io.Reader, e *plugin.Env) (plugin.Plugin, error) {
		return webhook.NewMutating(r, e)
	})
	add("VP", plugin.Validating, func(r io.Reader, e *plugin.Env) (plugin.Plugin, error) {
		return policy.NewValidating(r, e)
	})
	add("VW", plugin.Validating, func(r io.Reader, e *plugin.Env) (plugin.Plugin, error) {
		return webhook.NewValidating(r, e)
	})
	built, err := chain.New(list, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

type changing func(admission.Attributes)

func (changing) Handles(admission.Operation) bool { return true }

func (c changing) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	c(a)
	return nil
}

func creating(object runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
}

func nothing(admission.Attributes) {}

// Policies and webhooks' conditions have the object converted once a phase, not once a plugin.
func TestConvertedOnceForAllPlugins(t *testing.T) {
	for _, test := range []struct {
		name                 string
		sharing              bool
		between              func(admission.Attributes)
		mutating, validating int
	}{
		{"together", true, nothing, 1, 1},
		{"after somebody who may have changed it", true, func(a admission.Attributes) { a.GetObject() }, 2, 1},
		{"each alone", false, nothing, 2, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := plugins(t, test.sharing, test.between, objects(3, "", "object.metadata.name == 'other'")...)
			object := &counting{Unstructured: &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1",
				"kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"}}}}
			a := creating(object)
			if err := c.Admit(t.Context(), a, interfaces); err != nil {
				t.Fatal(err)
			}
			if object.conversions != test.mutating {
				t.Errorf("the mutating phase converted it %d times, want %d", object.conversions, test.mutating)
			}
			object.conversions = 0
			if err := c.Validate(t.Context(), a, interfaces); err != nil {
				t.Fatal(err)
			}
			if object.conversions != test.validating {
				t.Errorf("the validating phase converted it %d times, want %d", object.conversions, test.validating)
			}
		})
	}
}

func aPod() *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}}}
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "registry.example.com/team/application:v1.2.3",
			Command: []string{"/bin/application", "--verbose"}}
		for n := range 8 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", n), Value: "some value"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// Nobody is shown what was before a change: a webhook that sees the label isn't called.
func TestChangesAreSeen(t *testing.T) {
	const unlessLabelled = "object.metadata.labels[?'by'].orValue('') != 'them'"
	label := func(a admission.Attributes) { a.GetObject().(*corev1.Pod).Labels["by"] = "them" }
	for name, c := range map[string]*chain.Chain{
		"by a policy": plugins(t, true, nothing,
			objects(1, `JSONPatch{op: "add", path: "/metadata/labels/by", value: "them"}`, unlessLabelled)...),
		"by a plugin": plugins(t, true, label, objects(1, "", unlessLabelled)...),
	} {
		if err := c.Admit(t.Context(), creating(aPod()), interfaces); err != nil {
			t.Errorf("changed %s: %v", name, err)
		}
	}
}

// 100 policies and a webhook's condition, that read one pod: as they share it, and each plugin
// alone, as before they did.
func BenchmarkShared(b *testing.B) {
	for _, test := range []struct {
		name    string
		sharing bool
	}{{"apart", false}, {"together", true}} {
		b.Run(test.name, func(b *testing.B) {
			c := plugins(b, test.sharing, nothing, objects(100, "", "object.metadata.name == 'other'")...)
			pod := aPod()
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Validate(b.Context(), creating(pod), interfaces); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
