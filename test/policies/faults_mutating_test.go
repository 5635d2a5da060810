// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

var (
	mutatingPolicies = admission("mutatingadmissionpolicies")
	mutatingBindings = admission("mutatingadmissionpolicybindings")
)

// written is a ConfigMap as it would be stored.
func written(t *testing.T, ns, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	return at("", "v1", "configmaps", ns).Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(aConfigMap, name)),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// A binding without its policy does nothing, nor does a policy without its binding. They may come
// and go in any order.
func TestHalvesOfPolicies(t *testing.T) {
	for kind, spec := range map[string]string{
		"ValidatingAdmissionPolicy": `validations: [{expression: "false", message: in force}]`,
		"MutatingAdmissionPolicy": `reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration,
			applyConfiguration: {expression: "Object{metadata: Object.metadata{name: object.data.none}}"}}]`,
	} {
		t.Run(kind, func(t *testing.T) {
			ns := namespace(t)
			policies, bindings, refusal := validatingPolicies, validatingBindings, "denied request: in force"
			actions := ", validationActions: [Deny]"
			if kind == "MutatingAdmissionPolicy" {
				policies, bindings, refusal, actions = mutatingPolicies, mutatingBindings, "no such key", ""
			}
			write := func() error { return try(t, at("", "v1", "configmaps", ns), aConfigMap, "c") }
			name := "half-" + ns
			put := func() {
				t.Helper()
				install(t, policies, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %s, metadata:
					{name: %s}, spec: {matchConstraints: {resourceRules: [%s]}, %s}}`, kind, name, onConfigMaps, spec))
			}
			bind := func() {
				t.Helper()
				install(t, bindings, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sBinding,
					metadata:
					{name: %s}, spec: {policyName: %[2]s, matchResources: {namespaceSelector: {matchLabels:
					{kubernetes.io/metadata.name: %[3]s}}}%s}}`, kind, name, ns, actions))
			}
			remove := func(half schema.GroupVersionResource) {
				t.Helper()
				must(t, dynamicClient.Resource(half).Delete(t.Context(), name, metav1.DeleteOptions{}))
			}
			bind()
			must(t, write())
			put()
			becomes(t, refusal, write)
			remove(policies)
			becomes(t, "", write)
			put()
			becomes(t, refusal, write)
			remove(bindings)
			becomes(t, "", write)
			bind()
			becomes(t, refusal, write)
		})
	}
}

// What mutations must not do: take forever, take all memory. What a request may spend ends it.
func TestHostileMutations(t *testing.T) {
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	const dear = ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, " + ten + ".all(e, true)))))"
	const long = ten + ".all(f, " + dear + ")"
	set := func(value string) string {
		return "Object{metadata: Object.metadata{annotations: {'a': " + value + "}}}"
	}
	// Each is ten of the one before: the last would be 100 MB.
	growing := []string{"s0", "'xxxxxxxxxx'"}
	for i := range 7 {
		growing = append(growing, fmt.Sprint("s", i+1), fmt.Sprintf("%s.map(i, variables.s%d).join()", ten, i))
	}
	for name, policy := range map[string]mutatingPolicy{
		"time": {mutations: mutations{set("string(" + long + ")")}},
		"time of a patch": {mutations: mutations{
			"[JSONPatch{op: 'add', path: '/data', value: {'a': string(" + long + ")}}]"}},
		"memory": {variables: growing, mutations: mutations{set("variables.s7")}},
		"memory of a patch": {variables: growing,
			mutations: mutations{"[JSONPatch{op: 'add', path: '/data', value: {'a': variables.s7}}]"}},
		"condition": {conditions: []string{long}, mutations: mutations{set("'b'")}},
		"conditions that are dear together": {conditions: slices.Repeat([]string{dear}, 40),
			mutations: mutations{set("'b'")}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			policy.name = "hostile"
			create(t, ns, policy)
			_, err := written(t, ns, "c")
			want := "cost limit exceeded"
			if len(policy.conditions) > 1 {
				want = "running out of cost budget"
			}
			if err := is(err, want); err != nil {
				t.Error(err)
			}
			if _, err := written(t, ns, "d"); err != nil {
				t.Errorf("an object that isn't the policy's: %v", err)
			}
		})
	}
}

// Mutating policies that change all the time, while others write: every request meets one of them,
// whole.
func TestMutatingPoliciesChangeWhileOthersWrite(t *testing.T) {
	ns := namespace(t)
	set := func(key string, n int) string {
		return fmt.Sprintf(`Object{metadata: Object.metadata{annotations: {%q: "%d"}}}`, key, n)
	}
	create(t, ns, mutatingPolicy{name: "a", mutations: mutations{set("a", 0), set("b", 0)}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	for range 100 {
		writers.Go(func() {
			for ctx.Err() == nil {
				got, err := written(t, ns, "c")
				if err != nil {
					t.Error(err)
					return
				}
				if a := got.GetAnnotations(); a["a"] == "" || a["a"] != a["b"] {
					t.Errorf("half of a policy: %v", a)
					return
				}
			}
		})
	}
	for i := 1; i <= 20; i++ {
		_, err := dynamicClient.Resource(mutatingPolicies).Patch(t.Context(), ns+"-a", types.JSONPatchType,
			fmt.Appendf(nil, `[{"op":"replace","path":"/spec/mutations","value":[
				{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%q}},
				{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%q}}]}]`,
				set("a", i), set("b", i)), metav1.PatchOptions{})
		must(t, err)
		servertest.Retry(t, "the change to be in force", func() error {
			got, err := written(t, ns, "c")
			if err == nil && got.GetAnnotations()["a"] != fmt.Sprint(i) {
				err = fmt.Errorf("annotations are %v, want %d", got.GetAnnotations(), i)
			}
			return err
		})
	}
	cancel()
	writers.Wait()
}
