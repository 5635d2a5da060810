// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// annotate is the mutation that sets an annotation, count the one that adds 1 to annotation count.
func annotate(key string) string {
	return `Object{metadata: Object.metadata{annotations: {"` + key + `": "yes"}}}`
}

const count = `Object{metadata: Object.metadata{annotations: {
	"count": string(int(object.metadata.annotations["count"]) + 1)}}}`

// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#TestMutatingAdmissionPolicy 096a06be
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#TestMutatingAdmissionPolicy_Slow f65e2540
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/compilation_test.go#TestCompilation 265ff766
func TestMutating(t *testing.T) {
	type annotations map[string]string
	for name, test := range map[string]struct {
		params   func(t *testing.T, ns string)
		policies []mutatingPolicy
		labels   map[string]string
		given    annotations
		want     annotations
		// refused is what the refusal is, or begins with.
		refused string
	}{
		"one policy": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{annotate("a")}}},
			want:     annotations{"a": "yes"}},
		"one that isn't bound": {
			policies: []mutatingPolicy{{name: "a", unbound: true, mutations: mutations{annotate("a")}}, {name: "b"}}},
		"several": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{annotate("a")}},
				{name: "b", mutations: mutations{annotate("b")}}},
			want: annotations{"a": "yes", "b": "yes"}},
		"in order of their names": {
			policies: []mutatingPolicy{
				{name: "b",
					mutations: mutations{`[JSONPatch{op: "replace", path: "/metadata/annotations/a", value: "b"}]`}},
				{name: "a", mutations: mutations{annotate("a")}}},
			want: annotations{"a": "b"}},
		"params": {
			params: func(t *testing.T, ns string) {
				param(t, ns, "p", "", map[string]string{"key": "k", "value": "v"})
			},
			policies: []mutatingPolicy{{name: "a", params: "ConfigMap", bindings: refs(named("p")),
				mutations: mutations{`Object{metadata: Object.metadata{annotations: {
					params.data.key: params.data.value}}}`}}},
			want: annotations{"k": "v"}},
		"several params of a binding": {
			params: func(t *testing.T, ns string) {
				param(t, ns, "p", "param", map[string]string{"k1": "v1"})
				param(t, ns, "q", "param", map[string]string{"k2": "v2", "k3": "v3"})
			},
			policies: []mutatingPolicy{{name: "a", params: "ConfigMap", bindings: refs(selected("param")), applied: 2,
				mutations: mutations{`Object{metadata: Object.metadata{annotations: params.data}}`}}},
			want: annotations{"k1": "v1", "k2": "v2", "k3": "v3"}},
		"several bindings": {
			params: func(t *testing.T, ns string) {
				param(t, ns, "p", "", map[string]string{"k1": "v1"})
				param(t, ns, "q", "", map[string]string{"k2": "v2", "k3": "v3"})
			},
			policies: []mutatingPolicy{{name: "a", params: "ConfigMap", bindings: refs(named("p"), named("q")),
				mutations: mutations{`Object{metadata: Object.metadata{annotations: params.data}}`}}},
			want: annotations{"k1": "v1", "k2": "v2", "k3": "v3"}},
		"variables, and mutations of both kinds": {
			policies: []mutatingPolicy{{name: "a",
				variables: []string{"foo1", `"foo1" + "Value"`, "foo2", `variables.foo1.replace("1", "2")`},
				mutations: mutations{
					`Object{metadata: Object.metadata{annotations: {"foo1": variables.foo1}}}`,
					`[JSONPatch{op: "test", path: "/metadata/annotations", value: {"foo1": variables.foo1}},
						JSONPatch{op: "add", path: "/metadata/annotations/foo2", value: variables.foo2}]`,
					annotate("foo3")}}},
			want: annotations{"foo1": "foo1Value", "foo2": "foo2Value", "foo3": "yes"}},
		"variables are of the object as it is": {
			policies: []mutatingPolicy{{name: "a", variables: []string{"n",
				`int(object.metadata.annotations["count"])`},
				mutations: mutations{count, count,
					`Object{metadata: Object.metadata{annotations: {"n": string(variables.n)}}}`}}},
			given: annotations{"count": "1"}, want: annotations{"count": "3", "n": "3"}},
		"a patch whose test fails": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{
				`[JSONPatch{op: "test", path: "/metadata/name", value: "x"}, JSONPatch{op: "remove", path: "/data"}]`,
				annotate("a")}}},
			want: annotations{"a": "yes"}},
		"an escaped key": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{`[JSONPatch{op: "add",
				path: "/metadata/annotations/" + jsonpatch.escapeKey("example.com/a"), value: "yes"}]`}}},
			given: annotations{"b": "c"}, want: annotations{"b": "c", "example.com/a": "yes"}},
		"the namespace, the user, the request": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{`Object{metadata: Object.metadata{annotations: {
				"ns": string(namespaceObject.metadata.name == request.namespace),
				"op": request.operation + " " + request.kind.kind + " " + string(request.dryRun),
				"may": string(authorizer.requestResource.check("create").allowed())}}}`}}},
			want: annotations{"ns": "true", "op": "CREATE ConfigMap true", "may": "true"}},

		"a condition that holds": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{annotate("a")},
				conditions: []string{`object.metadata.?labels["environment"] == optional.of("test")`}}},
			labels: map[string]string{"environment": "test"}, want: annotations{"a": "yes"}},
		"one that doesn't": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{annotate("a")},
				conditions: []string{`object.metadata.?labels["environment"] == optional.of("test")`}}},
			labels: map[string]string{"environment": "production"}},
		"some hold": {
			policies: []mutatingPolicy{
				{name: "a", mutations: mutations{annotate("a")},
					conditions: []string{"object.metadata.name == 'other'"}},
				{name: "b", mutations: mutations{annotate("b")}, conditions: []string{"object.metadata.name == 'c'"}}},
			want: annotations{"b": "yes"}},
		"a condition about what those before have done": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{annotate("a")}},
				{name: "b", mutations: mutations{annotate("b")},
					conditions: []string{"has(object.metadata.annotations)"}}},
			want: annotations{"a": "yes", "b": "yes"}},

		"policies are evaluated again": {
			policies: []mutatingPolicy{
				{name: "a", ifNeeded: true, mutations: mutations{count, annotate("a")}},
				{name: "b", ifNeeded: true, mutations: mutations{count, annotate("b")}},
				{name: "c", mutations: mutations{count, annotate("c")}}},
			given: annotations{"count": "0"}, want: annotations{"count": "5", "a": "yes", "b": "yes", "c": "yes"}},
		"with each of their params": {
			params: func(t *testing.T, ns string) {
				param(t, ns, "p", "param", map[string]string{"p": "yes"})
				param(t, ns, "q", "param", map[string]string{"q": "yes"})
				param(t, ns, "r", "", map[string]string{"r": "yes"})
			},
			policies: []mutatingPolicy{
				{name: "a", ifNeeded: true, params: "ConfigMap", bindings: refs(selected("param")), applied: 4,
					mutations: mutations{`Object{metadata: Object.metadata{annotations: params.data}}`, count}},
				{name: "b", params: "ConfigMap", bindings: refs(named("r")),
					mutations: mutations{`Object{metadata: Object.metadata{annotations: params.data}}`, count}}},
			given: annotations{"count": "0"},
			want:  annotations{"count": "5", "p": "yes", "q": "yes", "r": "yes"}},
		"alone, too": {
			policies: []mutatingPolicy{{name: "a", ifNeeded: true, mutations: mutations{count}}},
			given:    annotations{"count": "0"}, want: annotations{"count": "2"}},
		"not where nothing changed": {
			policies: []mutatingPolicy{{name: "a", ifNeeded: true, mutations: mutations{"Object{}"}}}},
		"never": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{count}}},
			given:    annotations{"count": "0"}, want: annotations{"count": "1"}},

		"an error": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{`Object{data: {"k": object.nope}}`}}},
			refused: "policy 'NS-a' with binding 'NS-a-0' denied request: expression 'EXPRESSION' resulted in error: " +
				"no such key: nope (spec.mutations[1].applyConfiguration.expression)"},
		"every error": {
			policies: []mutatingPolicy{
				{name: "a", mutations: mutations{`Object{datax: {"a": "b"}}`,
					`Object{metadata: Object.metadata{labels: {"a": 1}}}`}},
				{name: "b", mutations: mutations{`[JSONPatch{op: "remove", path: "/metadata/none"}]`}},
				{name: "c", mutations: mutations{annotate("c")}}},
			refused: "policy 'NS-a' with binding 'NS-a-0' denied request: error applying patch: failed to convert " +
				"patch object to typed object: .datax: field not declared in schema " +
				"(spec.mutations[1].applyConfiguration.expression)\n" +
				"policy 'NS-a' with binding 'NS-a-0' denied request: error applying patch: failed to convert patch " +
				"object to typed object: .metadata.labels.a: expected string, got &value.valueUnstructured{Value:1} " +
				"(spec.mutations[2].applyConfiguration.expression)\n" +
				"policy 'NS-b' with binding 'NS-b-0' denied request: JSON Patch: error in remove for path: " +
				"'/metadata/none': Unable to remove nonexistent key: none: missing value " +
				"(spec.mutations[1].jsonPatch.expression)"},
		"errors are ignored, of the mutation alone": {
			policies: []mutatingPolicy{{name: "a", ignore: true,
				mutations: mutations{`Object{spec: Object.spec{nope: "x"}}`, annotate("a")}}},
			want: annotations{"a": "yes"}},
		"what can't be read any more is not ignored": {
			policies: []mutatingPolicy{{name: "a", ignore: true,
				mutations: mutations{`[JSONPatch{op: "add", path: "/spec", value: {"a": "b"}}]`}}},
			refused: "policy 'NS-a' with binding 'NS-a-0' denied request: Internal error occurred: strict " +
				`decoding error: unknown field "spec" (spec.mutations[1].jsonPatch.expression)`},
		"a condition that is an error": {
			policies: []mutatingPolicy{{name: "a", conditions: []string{"object.nope == 'x'"}}},
			refused:  "policy 'NS-a' with binding 'NS-a-0' denied request: expression "},
		"one that is ignored": {
			policies: []mutatingPolicy{{name: "a", ignore: true, conditions: []string{"object.nope == 'x'"},
				mutations: mutations{annotate("a")}}}},
		"a patch that panics its library": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{`[JSONPatch{op: "replace", path: ""}]`}}},
			refused: "policy 'NS-a' with binding 'NS-a-0' denied request: JSON Patch: an operation can't be " +
				"applied, check its path and value: runtime error: invalid memory address or nil pointer dereference " +
				"(spec.mutations[1].jsonPatch.expression)"},
		"Objects in a list are a value": {
			policies: []mutatingPolicy{{name: "a", mutations: mutations{`[JSONPatch{op: "add", path: "/data",
				value: {"a": string([Object.spec{a: 1}].size())}}, JSONPatch{op: "test", path: "/none",
				value: [Object.spec{a: 1}]}]`, annotate("a")}}},
			want: annotations{"a": "yes"}},
		"out of budget": {
			policies: []mutatingPolicy{{name: "a", variables: []string{"l", "[0,1,2,3,4,5,6,7,8,9]"},
				mutations: mutations{`Object{data: {"k": variables.l.all(a, variables.l.all(b, variables.l.all(c,
					variables.l.all(d, variables.l.all(e, variables.l.all(f,
						"0123456789" == "0123456789")))))) ? "x" : "y"}}`}}},
			refused: "policy 'NS-a' with binding 'NS-a-0' denied request: expression "},
		"a name can't be changed": {
			policies: []mutatingPolicy{{name: "a",
				mutations: mutations{`Object{metadata: Object.metadata{namespace: "other"}}`}}},
			refused: "the namespace of the provided object does not match the namespace sent on the request"},
		"what comes of it is validated": {
			policies: []mutatingPolicy{{name: "a",
				mutations: mutations{`Object{metadata: Object.metadata{labels: {"a": "!"}}}`}}},
			refused: `ConfigMap "c" is invalid: metadata.labels: Invalid value: "!"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			if test.params != nil {
				test.params(t, ns)
			}
			create(t, ns, test.policies...)
			got, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: test.labels, Annotations: test.given},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if test.refused != "" {
				want := strings.ReplaceAll(test.refused, "NS", ns)
				before, after, _ := strings.Cut(want, "EXPRESSION")
				if err == nil || !strings.HasPrefix(err.Error(), before) || !strings.Contains(err.Error(), after) {
					t.Errorf("got error  %v\nwant error %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got.Annotations, test.want) {
				t.Errorf("annotations are %v, want %v", got.Annotations, test.want)
			}
		})
	}
}

func refs(of ...*admissionregistrationv1.ParamRef) []*admissionregistrationv1.ParamRef { return of }

// The refusal is a 403 with reason Invalid, as upstream's, and each error a cause.
func TestMutatingRefusal(t *testing.T) {
	ns := namespace(t)
	create(t, ns, mutatingPolicy{name: "a", mutations: mutations{"Object{a: 1}", "Object{b: 1}"}})
	_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	status, ok := err.(*apierrors.StatusError)
	if !ok || status.ErrStatus.Code != http.StatusForbidden || status.ErrStatus.Reason != metav1.StatusReasonInvalid ||
		len(status.ErrStatus.Details.Causes) != 2 {
		t.Errorf("got %#v", err)
	}
}

// Pods get what a server adds to what policies add, and policies see what compiled-in plugins add.
func TestMutatingPods(t *testing.T) {
	ns := namespace(t)
	create(t, ns,
		mutatingPolicy{name: "a", resource: "pods", mutations: mutations{
			`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "sidecar", image: "proxy:1",
				restartPolicy: "Always"}]}}`}},
		mutatingPolicy{name: "b", resource: "pods", mutations: mutations{
			`Object{metadata: Object.metadata{annotations: {
				"policy": string(object.spec.initContainers[0].imagePullPolicy),
				"tolerations": string(object.spec.tolerations.size()),
				"account": string(object.spec.serviceAccountName)}}}`}},
		mutatingPolicy{name: "c", resource: "pods", mutations: mutations{
			`[JSONPatch{op: "add", path: "/spec/initContainers/0/env", value: [Object.spec.initContainers.env{name: "A",
				value: "1"}]}]`}})
	got, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"policy": "IfNotPresent", "tolerations": "2", "account": "default"}
	if !maps.Equal(got.Annotations, want) {
		t.Errorf("annotations are %v, want %v", got.Annotations, want)
	}
	if c := got.Spec.InitContainers; len(c) != 1 || c[0].TerminationMessagePath == "" || len(c[0].Env) != 1 ||
		// ServiceAccount has run once more for it.
		len(c[0].VolumeMounts) != 1 {
		t.Errorf("init containers are %+v", c)
	}

	_, err = client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("q"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Lists of one whole can't be changed in part, on any object.
func TestMutatingAtomics(t *testing.T) {
	ns := namespace(t)
	create(t, ns, mutatingPolicy{name: "a", resource: "pods", mutations: mutations{
		`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", command: ["sh"]}]}}`}})
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	want := "policy '" + ns + "-a' with binding '" + ns + "-a-0' denied request: error applying patch: invalid " +
		"ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command " +
		"(spec.mutations[1].applyConfiguration.expression)"
	if err == nil || err.Error() != want {
		t.Errorf("got error  %v\nwant error %s", err, want)
	}
}

// Updates and subresources are mutated where a rule names them, and nothing that is deleted is.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/mutatingadmissionpolicy_test.go#TestMutatingAdmissionPolicy_Slow f65e2540
func TestMutatingOperations(t *testing.T) {
	ns := namespace(t)
	everything := []admissionregistrationv1.OperationType{"*"}
	create(t, ns,
		mutatingPolicy{name: "status", operations: everything, resource: "pods/status", mutations: mutations{
			`Object{status: Object.status{conditions: [
				Object.status.conditions{type: "Ready", message: "mutated"}]}}`}},
		mutatingPolicy{name: "scale", operations: everything, group: "apps", resource: "deployments/scale",
			mutations: mutations{`[JSONPatch{op: "replace", path: "/spec/replicas",
				value: object.spec.replicas + 1}]`}},
		mutatingPolicy{name: "exec", operations: everything, resource: "pods/exec", ignore: true,
			mutations: mutations{`Object{command: ["sh"]}`}},
		mutatingPolicy{name: "update", operations: everything, mutations: mutations{
			`Object{metadata: Object.metadata{annotations: {"op": request.operation + " " +
				(oldObject == null ? "none" : oldObject.metadata.name)}}}`}})

	pods := client.CoreV1().Pods(ns)
	pod, err := pods.Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}
	if pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := pod.Status.Conditions; len(c) != 1 || c[0].Message != "mutated" || c[0].Status != corev1.ConditionUnknown {
		t.Errorf("conditions are %+v", c)
	}
	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}

	labels := map[string]string{"app": "d"}
	one := int32(1)
	if _, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: servertest.Pod("x").Spec}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := client.AppsV1().Deployments(ns).Patch(t.Context(), "d", types.MergePatchType,
		[]byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	_ = scale
	d, err := client.AppsV1().Deployments(ns).Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 4 {
		t.Errorf("%v; the deployment has %d replicas", err, *d.Spec.Replicas)
	}

	maps := client.CoreV1().ConfigMaps(ns)
	c, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
		metav1.CreateOptions{})
	if err != nil || c.Annotations["op"] != "CREATE none" {
		t.Errorf("%v; annotations are %v", err, c.Annotations)
	}
	if c, err = maps.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil || c.Annotations["op"] != "UPDATE c" {
		t.Errorf("%v; annotations are %v", err, c.Annotations)
	}
	if err := maps.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// A policy for one version mutates requests for another, in its own version, and policies for
// several versions see what the others have done.
func TestMutatingVersions(t *testing.T) {
	ns := namespace(t)
	create(t, ns,
		mutatingPolicy{name: "a", group: "apps", version: "v1", resource: "deployments", mutations: mutations{
			`Object{metadata: Object.metadata{annotations: {"a": object.apiVersion}}}`,
			`Object{spec: Object.spec{replicas: 3}}`}},
		mutatingPolicy{name: "b", group: "apps", version: "v1beta1", resource: "deployments", mutations: mutations{
			`Object{metadata: Object.metadata{annotations: {
				"b": object.apiVersion + " " + string(object.spec.replicas)}}}`}},
		mutatingPolicy{name: "c", group: "apps", version: "v1", resource: "deployments", mutations: mutations{
			`[JSONPatch{op: "add", path: "/metadata/annotations/c", value: object.metadata.annotations["b"]}]`}})
	for _, version := range []string{"v1", "v1beta1"} {
		u := servertest.Parsed(t, `{kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}},
			template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
		u.SetAPIVersion("apps/" + version)
		got, err := dynamicClient.Resource(appsv1.SchemeGroupVersion.WithResource("deployments").GroupResource().
			WithVersion(version)).Namespace(ns).Create(t.Context(), u,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a": "apps/v1"}
		delete(got.Object["metadata"].(map[string]any)["annotations"].(map[string]any),
			"deployment.kubernetes.io/revision")
		want["b"], want["c"] = "apps/v1beta1 3", "apps/v1beta1 3"
		if !maps.Equal(got.GetAnnotations(), want) || got.GetAPIVersion() != "apps/"+version {
			t.Errorf("sent as %s, it has apiVersion %s and annotations %v", version, got.GetAPIVersion(),
				got.GetAnnotations())
		}
	}
}
