// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/matching"
)

// snapshotOf is one of these webhooks; those named static are.
func snapshotOf(t testing.TB, webhooks ...admissionregistrationv1.MutatingWebhook) *snapshot {
	c := testCompiler(t)
	hooks := make([]*hook, len(webhooks))
	for i, w := range webhooks {
		hooks[i] = c.compile(w, w.Name, "configuration", w.Name == "static", nil)
	}
	return newSnapshot(hooks)
}

func rules(rules ...admissionregistrationv1.RuleWithOperations) func(*admissionregistrationv1.MutatingWebhook) {
	return func(w *admissionregistrationv1.MutatingWebhook) { w.Rules = rules }
}

// Candidates come with their position among all webhooks, which audit annotations have. About
// configurations only those of manifests are asked. Those that nearly have a rule are told apart.
func TestCandidates(t *testing.T) {
	s := snapshotOf(t,
		aWebhook("static", nobody(), rules(aRule("*", "*", "*", "*/*"))),
		aWebhook("pods", nobody(), rules(aRule("*", "", "v1", "pods"))),
		aWebhook("nodes", nobody(), rules(aRule("*", "", "v1", "nodes"))),
		aWebhook("everything", nobody(), rules(aRule("*", "*", "*", "*/*"))),
	)
	kind := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1",
		Kind: "MutatingWebhookConfiguration"}
	for name, test := range map[string]struct {
		request *attributes
		want    []string
	}{
		"pods": {newAttributes(create, newPod(), nil), []string{"static 0", "pods 1", "everything 3"}},
		"a configuration": {newAttributes(create, mutatingConfiguration("c"), nil,
			of(kind, "mutatingwebhookconfigurations"), in("")), []string{"static 0", "everything 3 missed"}},
		"a subresource": {newAttributes(create, newPod(), nil,
			of(corev1.SchemeGroupVersion.WithKind("Pod"), "pods"), subresource("resize")),
			[]string{"static 0", "pods 1 missed", "everything 3"}},
		"a status": {newAttributes(create, newPod(), nil,
			of(corev1.SchemeGroupVersion.WithKind("Pod"), "pods"), subresource("status")),
			[]string{"static 0", "everything 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range s.index.Candidates(matching.TargetOf(test.request), nil) {
				text := fmt.Sprintf("%s %d", c.name, c.index)
				if c.match.NeverMatches() {
					text += " missed"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %q\nwant  %q", got, test.want)
			}
		})
	}
}

// What a request pays doesn't grow with the webhooks that can't match, and is no memory.
func TestCandidatesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	mapper := runtime.NewEquivalentResourceRegistry()
	mapper.RegisterKindFor(gvr("", "v1", "pods"), "", corev1.SchemeGroupVersion.WithKind("Pod"))
	for _, n := range []int{0, 10, 2000} {
		s := snapshotOf(t, unrelated(n)...)
		a := newAttributes(create, newPod(), nil)
		allocations := testing.AllocsPerRun(100, func() { s.index.Candidates(matching.TargetOf(a), mapper) })
		if allocations != 0 {
			t.Errorf("with %d webhooks: %v allocations", n, allocations)
		}
	}
}

// unrelated are n webhooks that don't want pods.
func unrelated(n int) []admissionregistrationv1.MutatingWebhook {
	var webhooks []admissionregistrationv1.MutatingWebhook
	for i := range n {
		webhooks = append(webhooks, aWebhook(fmt.Sprintf("w%d.example.com", i), nobody(), equivalent,
			rules(aRule("*", "example.com", "*", fmt.Sprintf("things%d", i)), aRule("DELETE", "*", "*", "pods"))))
	}
	return webhooks
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}
