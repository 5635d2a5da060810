// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"
)

var alice = &user.DefaultInfo{Name: "alice", UID: "u-1", Groups: []string{"dev", "system:authenticated"}}

// pod has a field of every kind that JSON writes otherwise than Go.
func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop",
			Labels:            map[string]string{"app": "web", "app.kubernetes.io/part-of": "shop"},
			CreationTimestamp: metav1.Unix(1700000000, 0),
			DeletionTimestamp: ptr.To(metav1.Unix(1700000060, 0)),
		},
		Spec: corev1.PodSpec{
			HostNetwork: true,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/web:1",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(
					"1Gi")}},
				LivenessProbe: &corev1.Probe{
					ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
					TimeoutSeconds:   3,
					FailureThreshold: 2,
				},
			}},
		},
	}
}

func widget() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w"},
		"spec":     map[string]any{"size": int64(3), "ratio": 0.5, "sides": []any{"a", "b"}, "nothing": nil},
	}}
}

// request is what a webhook gets for the creation of a pod by alice that was sent to one API
// version and matched in another.
func request() *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID:                "0-1-2",
		Kind:               metav1.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"},
		Resource:           metav1.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"},
		SubResource:        "sub",
		RequestKind:        &metav1.GroupVersionKind{Group: "g", Version: "v1beta1", Kind: "OldThing"},
		RequestResource:    &metav1.GroupVersionResource{Group: "g", Version: "v1beta1", Resource: "oldthings"},
		RequestSubResource: "oldsub",
		Name:               "web",
		Namespace:          "shop",
		Operation:          admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{
			Username: alice.Name, UID: alice.UID, Groups: alice.Groups,
			Extra: map[string]authenticationv1.ExtraValue{"example.com/team": {"red", "blue"}},
		},
		Object:    runtime.RawExtension{Raw: []byte(`{"secret":true}`)},
		OldObject: runtime.RawExtension{Raw: []byte(`{"secret":true}`)},
		DryRun:    ptr.To(true),
		Options: runtime.RawExtension{Object: &metav1.CreateOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}, FieldManager: "kubectl",
		}},
	}
}

// contentOf is an object's, converted when it is read.
func contentOf(object runtime.Object) Content {
	return func() (map[string]any, error) { return runtime.DefaultUnstructuredConverter.ToUnstructured(object) }
}

func create(object runtime.Object) *Variables {
	return NewVariables(contentOf(object), nil, request, alice, nil)
}

// conditions compiles expressions as conditions with the names a, b, c, ...
func conditions(expressions ...string) *Conditions {
	var stated []admissionregistrationv1.MatchCondition
	for i, e := range expressions {
		stated = append(stated, admissionregistrationv1.MatchCondition{Name: string(rune('a' + i)), Expression: e})
	}
	return NewCompiler().Compile(stated)
}

// What expressions see. Costs, values and messages of these have been compared with
// k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go's.
func TestVariables(t *testing.T) {
	for _, test := range []struct {
		name      string
		variables *Variables
		// true are expressions that hold.
		true []string
		// errors are expressions that can't be evaluated, with what their errors contain.
		errors map[string]string
	}{
		{
			name:      "a typed object is seen as its JSON",
			variables: create(pod()),
			true: []string{
				"object.apiVersion == 'v1' && object.kind == 'Pod'",
				"object.metadata.name == 'web'",
				"object.metadata.labels['app.kubernetes.io/part-of'] == 'shop'",
				"object.metadata.creationTimestamp == '2023-11-14T22:13:20Z'",
				"object.metadata.deletionTimestamp == '2023-11-14T22:14:20Z'",
				"object.spec.hostNetwork == true && !object.spec.?hostPID.orValue(false)",
				"object.spec.containers[0].resources.limits.memory == '1Gi'",
				"quantity(object.spec.containers[0].resources.limits['memory']).isGreaterThan(quantity('1G'))",
				"object.spec.containers[0].livenessProbe.httpGet.port == 8080",
				"object.spec.containers[0].livenessProbe.timeoutSeconds == 3",
				"object.spec.containers.all(c, c.image.startsWith('registry.example/'))",
			},
		},
		{
			name:      "bytes are base64",
			variables: create(&corev1.Secret{Data: map[string][]byte{"key": []byte("value")}}),
			true:      []string{"object.data.key == 'dmFsdWU='"},
		},
		{
			name:      "fields that are not set",
			variables: create(pod()),
			true: []string{
				"!has(object.metadata.annotations)",
				"!has(object.spec.hostPID)",
				"!('x' in object.metadata.labels)",
				"object.metadata.?annotations['x'].orValue('none') == 'none'",
				"has(object.status)",
			},
			errors: map[string]string{
				"object.metadata.annotations['x'] == ''":    "no such key: annotations",
				"has(object.metadata.annotations.x)":        "no such key: annotations",
				"object.spec.containers[1].name == 'x'":     "index out of bounds: 1",
				"object.metadata.name.unknown == 'x'":       "no such key: unknown",
				"object.metadata.name > 3":                  "no such overload",
				"object.spec.containers[0].image.x == true": "no such key: x",
			},
		},
		{
			name:      "a custom resource",
			variables: create(widget()),
			true: []string{
				"object.kind == 'Widget' && object.spec.size == 3 && object.spec.ratio < 1",
				"object.spec.sides == ['a', 'b']",
				"has(object.spec.nothing) && object.spec.nothing == null",
			},
		},
		{
			name:      "create has no oldObject",
			variables: create(pod()),
			true:      []string{"oldObject == null", "!has(oldObject.metadata)", "object != null"},
			errors:    map[string]string{"oldObject.metadata.name == 'x'": "no such key: metadata"},
		},
		{
			name:      "delete has no object",
			variables: NewVariables(nil, contentOf(pod()), request, alice, nil),
			true:      []string{"object == null", "oldObject.metadata.name == 'web'"},
			errors:    map[string]string{"object.metadata.name == 'x'": "no such key: metadata"},
		},
		{
			name:      "update has both",
			variables: NewVariables(contentOf(pod()), contentOf(widget()), request, alice, nil),
			true: []string{"object.metadata.name == 'web' && oldObject.metadata.name == 'w'",
				"object != oldObject", "object == object"},
		},
		{
			name:      "request",
			variables: create(pod()),
			true: []string{
				"request.kind.group == 'g' && request.kind.version == 'v1' && request.kind.kind == 'Thing'",
				"request.resource.group == 'g' && request.resource.version == 'v1' && request.resource.resource == " +
					"'things'",
				"request.subResource == 'sub'",
				"request.requestKind.group == 'g' && request.requestKind.version == 'v1beta1' && " +
					"request.requestKind.kind == 'OldThing'",
				"request.requestResource.version == 'v1beta1' && request.requestResource.resource == 'oldthings'",
				"request.requestSubResource == 'oldsub'",
				"request.name == 'web' && request.namespace == 'shop'",
				"request.operation == 'CREATE'",
				"request.userInfo.username == 'alice' && request.userInfo.uid == 'u-1'",
				"'dev' in request.userInfo.groups && size(request.userInfo.groups) == 2",
				"request.userInfo.extra['example.com/team'] == ['red', 'blue']",
				"request.dryRun",
				"request.options.kind == 'CreateOptions' && request.options.fieldManager == 'kubectl'",
			},
			errors: map[string]string{
				"request.uid == ''":              "undefined field 'uid'",
				"request.object == null":         "undefined field 'object'",
				"request.oldObject == null":      "undefined field 'oldObject'",
				"request.userInfo.nope == ''":    "undefined field 'nope'",
				"request.options.nope == ''":     "no such key: nope",
				"request.resource.name == 'x'":   "undefined field 'name'",
				"request.operation == 1":         "no matching overload",
				"request.userInfo.groups == 'x'": "no matching overload",
			},
		},
		{
			// Nor by a way around the types.
			name:      "request without uid, object and oldObject",
			variables: create(pod()),
			true: []string{"dyn(request).uid == ''", "dyn(request).object == null",
				"dyn(request).oldObject == null"},
		},
		{
			name: "request of nobody, without options",
			variables: NewVariables(nil, nil,
				func() *admissionv1.AdmissionRequest { return &admissionv1.AdmissionRequest{} }, nil, nil),
			true: []string{
				"!has(request.userInfo.username) && !has(request.userInfo.groups) && !has(request.userInfo.extra)",
				"!has(request.dryRun) && !has(request.subResource) && request.options == null",
				"request.kind.kind == ''",
			},
		},
		{
			// Upstream declares it in every environment, and binds it in policies only:
			// createEnvForOpts in k8s.io/apiserver/pkg/admission/plugin/cel/compile.go.
			name:      "namespaceObject is null",
			variables: create(pod()),
			true:      []string{"namespaceObject == null"},
			errors: map[string]string{
				"namespaceObject.metadata.name == 'shop'":        "no such key: metadata",
				"namespaceObject.metadata.ownerReferences == []": "undefined field 'ownerReferences'",
			},
		},
		{
			name:      "variables of policies",
			variables: create(pod()),
			errors: map[string]string{
				"params == null":    "undeclared reference to 'params'",
				"variables.a == 1":  "undeclared reference to 'variables'",
				"resource == 'pod'": "undeclared reference to 'resource'",
			},
		},
		{
			name:      "without an authorizer",
			variables: create(pod()),
			errors: map[string]string{
				"authorizer.path('/x').check('get').allowed()":     "no such attribute(s): authorizer",
				"authorizer.requestResource.check('x').allowed()":  "no such attribute(s): authorizer.requestResource",
				"authorizer.group('').resource('x') == authorizer": "no matching overload",
			},
		},
		{
			name:      "an object that can't be converted is an error of who reads it",
			variables: create(&unconvertible{}),
			true:      []string{"request.name == 'web'"},
			errors: map[string]string{"object.spec == 1": "resulted in error: failed to prepare object variable " +
				"for evaluation: unrecognized type: chan"},
		},
		{
			name: "options that can't be converted",
			variables: NewVariables(nil, nil, func() *admissionv1.AdmissionRequest {
				return &admissionv1.AdmissionRequest{Options: runtime.RawExtension{Object: &unconvertible{}}}
			}, alice, nil),
			errors: map[string]string{"request.name == ''": "failed to prepare request variable for evaluation: " +
				"unrecognized type: chan"},
		},
		{
			name: "options that are not JSON",
			variables: NewVariables(nil, nil, func() *admissionv1.AdmissionRequest {
				return &admissionv1.AdmissionRequest{Options: runtime.RawExtension{Raw: []byte("{")}}
			}, alice, nil),
			errors: map[string]string{"request.name == ''": "failed to prepare request variable for evaluation: " +
				"unexpected end of JSON input"},
		},
		{
			name: "a request that panics is an error",
			variables: NewVariables(contentOf(pod()), nil, func() *admissionv1.AdmissionRequest { panic("no request") },
				alice,
				nil),
			true:   []string{"object.metadata.name == 'web'"},
			errors: map[string]string{"request.name == ''": "internal error: no request"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, e := range test.true {
				if verdict := conditions(e).Match(t.Context(), test.variables); !verdict.Matches {
					t.Errorf("%s: %+v", e, verdict)
				}
			}
			for e, want := range test.errors {
				verdict := conditions(e).Match(t.Context(), test.variables)
				if verdict.Err == nil || verdict.Matches || verdict.Failed != "" ||
					!strings.Contains(verdict.Err.Error(), want) {
					t.Errorf("%s: want error %q, got %+v", e, want, verdict)
				}
			}
		})
	}
}

// The request is written out field by field; it must stay what the converter makes of it.
func TestRequestIsItsJSON(t *testing.T) {
	full := request()
	for i, fields := 0, reflect.ValueOf(*full); i < fields.NumField(); i++ {
		if fields.Field(i).IsZero() {
			t.Errorf("the test's request has no %s", fields.Type().Field(i).Name)
		}
	}
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"full":  func(*admissionv1.AdmissionRequest) {},
		"empty": func(r *admissionv1.AdmissionRequest) { *r = admissionv1.AdmissionRequest{} },
		"empty strings": func(r *admissionv1.AdmissionRequest) {
			r.DryRun, r.UserInfo.Groups = ptr.To(false),
				[]string{""}
		},
		"extra with nothing": func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"nil": nil, "empty": {}}
		},
		"options as JSON": func(r *admissionv1.AdmissionRequest) {
			r.Options = runtime.RawExtension{Raw: []byte(`{"kind":"DeleteOptions","gracePeriodSeconds":5,"big":1.5,` +
				`"list":[null]}`)}
		},
		"JSON wins over an object": func(
			r *admissionv1.AdmissionRequest) {
			r.Options.Raw = []byte(`{"kind":"PatchOptions"}`)
		},
		"options null": func(r *admissionv1.AdmissionRequest) { r.Options.Raw = []byte(`null`) },
	} {
		r := request()
		change(r)
		got := celRequest(r)
		r.UID, r.Object, r.OldObject = "", runtime.RawExtension{}, runtime.RawExtension{}
		want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// unconvertible has a field that is nothing in JSON.
type unconvertible struct {
	metav1.TypeMeta `json:",inline"`
	Spec            chan int `json:"spec"`
}

func (u *unconvertible) DeepCopyObject() runtime.Object { return u }

// A variable is converted when it is first read, and once.
func TestVariablesAreConvertedOnce(t *testing.T) {
	requests := 0
	object, old := &counting{Unstructured: *widget()}, &counting{Unstructured: *widget()}
	v := NewVariables(contentOf(object), contentOf(old),
		func() *admissionv1.AdmissionRequest { requests++; return request() }, alice,
		allowing)
	for _, step := range []struct {
		expression              string
		objects, olds, requests int
	}{
		{"true", 0, 0, 0},
		{"authorizer.path('/x').check('get').allowed()", 0, 0, 0},
		{"object.spec.size == 3 || oldObject.spec.size == 3", 1, 0, 0},
		{"object.spec.size == 3 && oldObject.spec.size == 3", 1, 1, 0},
		{"request.name == 'web'", 1, 1, 1},
		{"authorizer.requestResource.check('get').allowed()", 1, 1, 1},
		{"request.name == 'web' && object.spec.size == oldObject.spec.size", 1, 1, 1},
	} {
		if verdict := conditions(step.expression).Match(t.Context(), v); !verdict.Matches {
			t.Errorf("%s: %+v", step.expression, verdict)
		}
		if object.read != step.objects || old.read != step.olds || requests != step.requests {
			t.Errorf("after %s: object converted %d times, oldObject %d, request %d; want %+v", step.expression,
				object.read, old.read, requests, step)
		}
	}
}

// counting counts its conversions.
type counting struct {
	unstructured.Unstructured
	read int
}

func (c *counting) UnstructuredContent() map[string]any {
	c.read++
	return c.Unstructured.UnstructuredContent()
}

var allowing = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string,
	error) {
	return authorizer.DecisionAllow, "", nil
})
