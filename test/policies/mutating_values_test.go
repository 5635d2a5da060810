// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/test/servertest"
)

// valueCase is what a mutation makes of an object. The objects are YAML, without apiVersion and kind.
type valueCase struct {
	mutation    string
	given, want string
}

// check creates the object under a policy with the mutation, and compares the answer with test.want.
func (test valueCase) check(t *testing.T, of dynamic.NamespaceableResourceInterface, policy mutatingPolicy,
	kind string) {
	t.Helper()
	ns := namespace(t)
	policy.mutations = mutations{test.mutation}
	create(t, ns, policy)
	got, err := of.Namespace(ns).Create(t.Context(), servertest.Parsed(t, "{"+kind+", "+test.given+"}"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	must(t, err)
	for _, field := range []string{"namespace", "uid", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(got.Object, "metadata", field)
	}
	if want := servertest.Parsed(t, "{"+kind+", "+test.want+"}"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got.Object, want.Object)
	}
}

// Values are of the schema's types in the object, and in what an expression makes: either can be a
// patch's value, and lists of both are one list.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#TestMutatingAdmissionPolicy 096a06be
func TestMutatingValues(t *testing.T) {
	const (
		unready  = `metadata: {name: e}, subsets: [{notReadyAddresses: [{ip: 1.2.3.4}]}]`
		one, two = `Object.subsets.addresses{ip: "10.0.0.1"}`, `Object.subsets.addresses{ip: "10.0.0.2"}`
		here     = `object.subsets[0].notReadyAddresses`
		also     = `Object.metadata{finalizers: ["example.com/new"]}.finalizers`
	)
	ready := func(value string) string {
		return `[JSONPatch{op: "add", path: "/subsets/0/addresses", value: ` + value + `}]`
	}
	readyNow := func(addresses string) string {
		return `metadata: {name: e}, subsets: [{addresses: [` + addresses + `], notReadyAddresses: [{ip: 1.2.3.4}]}]`
	}
	finalizers := func(value string) string {
		return `Object{metadata: Object.metadata{finalizers: ` + value + `}}`
	}
	for name, test := range map[string]valueCase{
		"a value that is made":  {ready("[" + one + "]"), unready, readyNow(`{ip: 10.0.0.1}`)},
		"a value of the object": {ready("[" + here + "[0]]"), unready, readyNow(`{ip: 1.2.3.4}`)},
		"a list of the object":  {ready(here), unready, readyNow(`{ip: 1.2.3.4}`)},
		"both of the object": {ready(here + " + [" + here + "[0]]"), unready,
			readyNow(`{ip: 1.2.3.4}, {ip: 1.2.3.4}`)},
		"of the object and made": {ready(here + " + [" + one + ", " + two + "]"), unready,
			readyNow(`{ip: 1.2.3.4}, {ip: 10.0.0.1}, {ip: 10.0.0.2}`)},
		"made and of the object": {ready("[" + one + ", " + two + "] + " + here), unready,
			readyNow(`{ip: 10.0.0.1}, {ip: 10.0.0.2}, {ip: 1.2.3.4}`)},
		"both made": {ready("[" + one + "] + [" + two + "]"), unready,
			readyNow(`{ip: 10.0.0.1}, {ip: 10.0.0.2}`)},
		"applied, of the object and made": {finalizers("object.metadata.finalizers + " + also),
			`metadata: {name: e, finalizers: [example.com/old]}`,
			`metadata: {name: e, finalizers: [example.com/old, example.com/new]}`},
		"applied, made and of the object": {finalizers(also + " + object.metadata.finalizers"),
			`metadata: {name: e, finalizers: [example.com/old]}`,
			`metadata: {name: e, finalizers: [example.com/new, example.com/old]}`},
		"applied, both made": {finalizers(also + ` + Object.metadata{finalizers: ["example.com/newer"]}.finalizers`),
			`metadata: {name: e}`, `metadata: {name: e, finalizers: [example.com/new, example.com/newer]}`},
		"the keys of a map": {`[JSONPatch{op: "add", path: "/metadata/labels/added",
			value: object.metadata.labels.all(k, k != "invalid") ? "true" : "false"}]`,
			`metadata: {name: e, labels: {env: prod, app: demo}}`,
			`metadata: {name: e, labels: {env: prod, app: demo, added: "true"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, dynamicClient.Resource(coreResource("endpoints")),
				mutatingPolicy{name: "a", resource: "endpoints"}, "apiVersion: v1, kind: Endpoints")
		})
	}
}

// Containers are a list by name: one more is added to those that the object has, whether the
// mutation is one container or the object's and one more.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#TestMutatingAdmissionPolicy 096a06be
func TestMutatingOneMoreContainer(t *testing.T) {
	ns := namespace(t)
	create(t, ns, mutatingPolicy{name: "a", resource: "pods", mutations: mutations{`Object{spec: Object.spec{
		containers: object.spec.containers + [Object.spec.containers{name: "sidecar", image: "proxy:1"}]}}`}})
	got, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	must(t, err)
	if c := got.Spec.Containers; len(c) != 2 || c[0].Name != "main" || c[1].Name != "sidecar" {
		t.Errorf("containers are %+v", c)
	}
}

// Values of a custom resource whose schema says nothing of them have no types; what an expression
// makes has one. Together they are as they are where both have types.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#Test_MutatingAdmissionPolicy_CustomResources a84c7c21
func TestMutatingValuesWithoutSchema(t *testing.T) {
	bears(t, "sunbears", "SunBear", `{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`)
	sunBears := dynamicClient.Resource(bearsOf("v1", "sunbears"))
	policy := mutatingPolicy{name: "a", group: "bears.example.com", resource: "sunbears"}
	const kind = "apiVersion: bears.example.com/v1, kind: SunBear"
	known := namespace(t)
	first := policy
	first.mutations = mutations{`Object{spec: Object.spec{known: true}}`}
	create(t, known, first)
	servertest.Retry(t, "the schema to be known", func() error {
		_, err := sunBears.Namespace(known).Create(t.Context(), servertest.Parsed(t, "{"+kind+", metadata: {name: c}}"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	foods := func(value string) string { return `[JSONPatch{op: "add", path: "/spec/foods", value: ` + value + `}]` }
	applied := func(value string) string { return `Object{spec: Object.spec{foods: ` + value + `}}` }
	const (
		more       = `[Object.spec.foods{item: "honey"}]`
		moreFoods  = `Object.spec{foods: ["honey"]}.foods`
		oldAndNew  = `metadata: {name: c}, spec: {foods: [figs, honey]}`
		figs       = `metadata: {name: c}, spec: {foods: [figs]}`
		figsAsItem = `metadata: {name: c}, spec: {foods: [{item: figs}]}`
	)
	for name, test := range map[string]valueCase{
		"of the object and made": {foods("object.spec.foods + " + more), figsAsItem,
			`metadata: {name: c}, spec: {foods: [{item: figs}, {item: honey}]}`},
		"made and of the object": {foods(more + " + object.spec.foods"), figsAsItem,
			`metadata: {name: c}, spec: {foods: [{item: honey}, {item: figs}]}`},
		"of the object and a list":        {foods(`object.spec.foods + ["honey"]`), figs, oldAndNew},
		"applied, of the object and made": {applied("object.spec.foods + " + moreFoods), figs, oldAndNew},
		"applied, made and of the object": {applied(moreFoods + " + object.spec.foods"), figs,
			`metadata: {name: c}, spec: {foods: [honey, figs]}`},
		"applied, of the object and a list": {applied(`object.spec.foods + ["honey"]`), figs, oldAndNew},
		"fields": {`[JSONPatch{op: "add", path: "/spec/diet/secondary", value: "honey"},
			JSONPatch{op: "replace", path: "/spec/diet/dailyKg", value: "25"}]`,
			`metadata: {name: c}, spec: {diet: {primary: figs, dailyKg: "15"}}`,
			`metadata: {name: c}, spec: {diet: {primary: figs, dailyKg: "25", secondary: honey}}`},
		"an object that is made": {`[JSONPatch{op: "add", path: "/spec/habitat",
			value: Object.spec.habitat{name: "mountain", protected: true}}]`,
			`metadata: {name: c}, spec: {diet: {primary: figs}}`,
			`metadata: {name: c}, spec: {diet: {primary: figs}, habitat: {name: mountain, protected: true}}`},
		"applied, into an object": {`Object{spec: Object.spec{habitat: Object.spec.habitat{humidity: "85%",
			temperature: "20C"}}}`,
			`metadata: {name: c}, spec: {habitat: {name: forest, temperature: 22C}}`,
			`metadata: {name: c}, spec: {habitat: {name: forest, temperature: 20C, humidity: "85%"}}`},
	} {
		t.Run(name, func(t *testing.T) { test.check(t, sunBears, policy, kind) })
	}
}

// A policy copies fields of its param, a custom resource, into a pod. If both have a label, the param's
// wins.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#Test_MutatingAdmissionPolicy_CustomResourceParamRef 026bfa6d
func TestMutatingByCustomParams(t *testing.T) {
	ns := namespace(t)
	define(t, "dens", "Den", "Cluster", `{type: object, x-kubernetes-preserve-unknown-fields: true}`)
	install(t, schema.GroupVersionResource{Group: "policies.example.com", Version: "v1", Resource: "dens"},
		`{apiVersion: policies.example.com/v1, kind: Den, metadata: {name: den, labels: {shared: param, param: here}},
		spec: {foods: [figs, honey], habitat: {name: forest}}}`)
	install(t, mutatingPolicies, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy,
		metadata: {name: %s}, spec: {paramKind: {apiVersion: policies.example.com/v1, kind: Den}, reinvocationPolicy: Never,
		matchConstraints: {resourceRules: [%s]}, mutations: [{patchType: ApplyConfiguration, applyConfiguration:
		{expression: 'Object{metadata: Object.metadata{annotations: {"food": params.spec.foods[0],
		"habitat": params.spec.habitat.name}, labels: params.metadata.labels}}'}}]}}`, ns,
		rule("", "v1", "pods", "[CREATE]")))
	install(t, mutatingBindings, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1,
		kind: MutatingAdmissionPolicyBinding, metadata: {name: %[1]s}, spec: {policyName: %[1]s,
		paramRef: {name: den, parameterNotFoundAction: Deny}, matchResources:
		{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}}}`, ns))
	pod := servertest.Pod("p")
	pod.Labels = map[string]string{"shared": "pod", "pod": "here"}
	servertest.Retry(t, "the param to be in the pod", func() error {
		got, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err != nil:
			return err
		case got.Annotations["food"] == "":
			return fmt.Errorf("it has no annotation of the policy, only %v", got.Annotations)
		case !maps.Equal(got.Annotations, map[string]string{"food": "figs", "habitat": "forest"}):
			t.Errorf("annotations are %v", got.Annotations)
		case !maps.Equal(got.Labels, map[string]string{"shared": "param", "param": "here", "pod": "here"}):
			t.Errorf("labels are %v", got.Labels)
		}
		return nil
	})
}
