// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Expressions have the results and the costs of upstream's conditions, which read a typed object by
// reflection.
func TestResultsAreUpstreams(t *testing.T) {
	object := pod()
	object.Annotations, object.Finalizers = map[string]string{}, []string{}
	object.Spec.SecurityContext = &corev1.PodSecurityContext{}
	object.Spec.Containers[0].Args = []string{"a", "b"}
	object.Spec.Volumes = []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	old := object.DeepCopy()
	old.Spec.Containers[0].Resources.Limits["memory"] = resource.MustParse("1073741824") // 1Gi, written otherwise
	params := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": "b"}},
		Data: map[string]string{"x": "1"}, BinaryData: map[string][]byte{"b": []byte("x")}}
	namespace := plugincel.CreateNamespaceObject(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels: map[string]string{"x": "y"}}})
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	attributes := admission.NewAttributesRecord(object, old, kind, "shop", "web", pods, "", admission.Update, nil, false,
		alice)
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(pods),
		metav1.GroupVersionKind(kind))
	compiler, err := plugincel.NewCompositedCompiler(
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}

	upstreams := func(text string) (string, uint64) {
		versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind,
			VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old)}
		evaluator := compiler.CompileCondition([]plugincel.ExpressionAccessor{accessor(text)},
			plugincel.OptionalVariableDeclarations{HasParams: true}, environment.StoredExpressions)
		results, left, err := evaluator.ForInput(t.Context(), versioned, request,
			plugincel.OptionalVariableBindings{VersionedParams: params}, namespace, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return describe(results[0].EvalResult, results[0].Error), celconfig.RuntimeCELCostBudget - uint64(left)
	}
	ours := func(text string) (string, uint64) {
		v := NewVariables(contentOf(object), contentOf(old), func() *admissionv1.AdmissionRequest { return request }, alice,
			nil)
		run := v.Run(Inputs{Params: NewParams(params, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
			Namespace: namespace})
		result, err := run.Evaluate(t.Context(), NewCompiler().Expression(text, anything, true))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return describe(result.Value, result.Err), celconfig.RuntimeCELCostBudget - run.budget
	}

	for _, text := range []string{
		"object.spec.containers[0].resources.limits == oldObject.spec.containers[0].resources.limits",
		"object.spec != 'x'", "'x' == object.spec", "[1] == object.spec.containers", "object.spec.containers == [1]",
		"object.spec.containers[5].name == 'x'", "object.spec.containers['a'] == 1", "object.nope == 1",
		"object.metadata.labels.nope == 'x'", "has(object.metadata.annotations)", "has(object.metadata.finalizers)",
		"object.status", "object.spec.securityContext == {}", "{} == object.spec.securityContext", "size(object)",
		"size(object.metadata)", "size(object.spec)", "object.map(k, k).sort()", "object.metadata.map(k, k).sort()",
		"object.spec.containers[0].livenessProbe.map(k, k).sort()", "object.spec.containers.map(c, c.name)",
		"'app' in object.metadata.labels", "'name' in object.metadata", "'a' in object.spec.containers[0].args",
		"1 in object.spec.containers[0].args", "object.spec.containers[0] in object.spec.containers",
		"string(object.metadata.labels)", "'%s'.format([object.metadata.labels])", "'%s'.format([object.spec])",
		"object.spec.containers[0].args + ['c'] == ['a', 'b', 'c']", "['c'] + object.spec.containers[0].args",
		"object.spec.containers[0].args.join()", "sets.contains(object.spec.containers[0].args, ['a'])",
		"object.spec.containers[0].args.reverse()", "[object.spec.containers].flatten().size()",
		"type(object) == map && type(object.spec.containers) == list",
		"object.metadata.?labels[?'nope'].orValue('z')", "object.spec.containers[?9].hasValue()",
		"optional.ofNonZeroValue(object.spec.containers[0].args).hasValue()", "params.data == {'x': '1'}",
		"params.binaryData.b", "params.metadata.labels == {'a': 'b'}", "params == object",
		"namespaceObject.metadata.labels == {'x': 'y'}", "has(namespaceObject.status.phase)",
		"namespaceObject.spec.finalizers", "namespaceObject.metadata.creationTimestamp", "request.dryRun",
		"request.options == null", "request.userInfo.groups", "request.userInfo.extra", "request.subResource",
		"request.kind == request.requestKind", "dyn(request).map(k, k).sort()",
		"{'limits': {'memory': '1Gi'}} == object.spec.containers[0].resources",
		"object.spec.containers[0].livenessProbe.httpGet == {'port': 8080}",
		"object.spec.volumes[0] == {'name': 'v', 'emptyDir': {}}", "object.metadata.labels.transformMap(k, v, v + 'x')",
		"object.spec.containers[0].args.includes('a')", "object.spec.containers.includes(object.spec.containers[0])",
		"[object.spec, 'x'].indexOf('x')", "'x' in [object.spec, 'x']", "!object.spec",
		"object.metadata.labels == {'app': 'web', 'app.kubernetes.io/part-of': 1}",
		"timestamp(object.metadata.creationTimestamp) > timestamp('2020-01-01T00:00:00Z')",
		"timestamp('2020-01-01T1:00:00Z').getHours()", "timestamp('2020-01-01T00:00:00Z').getHours('+25:60')",
		"object.spec.containers[0].livenessProbe.timeoutSeconds == 3.0",
	} {
		got, cost := ours(text)
		want, wantCost := upstreams(text)
		if got != want || cost != wantCost {
			t.Errorf("%s\ngot  %s, for %d\nwant %s, for %d", text, got, cost, want, wantCost)
		}
	}

	// These differ, as docs/differences.md says: ours come to what they do for the object's JSON.
	for text, want := range map[string][2]string{
		"object.spec == oldObject.spec":                                   {"false", "true"},
		"object.spec == 'x'":                                              {"false", "no such overload"},
		"object.spec.containers == 'x'":                                   {"false", "no such overload"},
		"{'a': object.spec} == {'a': 'x'}":                                {"false", "true"},
		"object.spec.containers[0.0].name":                                {"main", "unsupported index type: types.Double"},
		"1 in object.spec":                                                {"false", "unsupported map key type: types.Int"},
		"optional.ofNonZeroValue(object.spec.securityContext).hasValue()": {"false", "true"},
		"params.kind":                                                     {"ConfigMap", "no such key: kind"},
	} {
		got, _ := ours(text)
		if want[0] != got {
			t.Errorf("%s: got %s, want %s", text, got, want[0])
		}
		theirs, _ := upstreams(text)
		if failed := fmt.Sprintf("expression '%s' resulted in error: %s", text, want[1]); theirs != want[1] &&
			theirs != failed {
			t.Errorf("%s: upstream comes to %s now, and not to %s", text, theirs, want[1])
		}
	}
}

// accessor is the text of an expression that may evaluate to anything.
type accessor string

func (a accessor) GetExpression() string { return string(a) }

func (accessor) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }

// describe returns a value, whatever Go type it has, or the error.
func describe(v ref.Val, err error) string {
	if err != nil {
		return err.Error()
	}
	switch v := v.(type) {
	case traits.Lister:
		var all []string
		for i := v.Iterator(); i.HasNext().Value() == true; {
			all = append(all, describe(i.Next(), nil))
		}
		return fmt.Sprint(all)
	case traits.Mapper:
		var all []string
		for i := v.Iterator(); i.HasNext().Value() == true; {
			key := i.Next()
			all = append(all, describe(key, nil)+": "+describe(v.Get(key), nil))
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}
	return fmt.Sprint(v.Value())
}
