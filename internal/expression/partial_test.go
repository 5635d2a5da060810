// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is known of a request decides some expressions, whatever the objects are.
func TestPartial(t *testing.T) {
	pods := Known{Request: map[string]any{"operation": "CREATE",
		"resource": map[string]any{"group": "", "version": "v1", "resource": "pods"}}, NoOldObject: true, NoNamespace: true}
	deletion := Known{Request: map[string]any{"operation": "DELETE",
		"resource": map[string]any{"group": "", "resource": "pods"}}, NoObject: true}
	kindKnown := Known{Request: map[string]any{}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}
	for _, tt := range []struct {
		known Known
		text  string
		want  Outcome
	}{
		{pods, `request.resource.resource == "pods"`, AlwaysTrue},
		{pods, `request.resource.resource == "nodes"`, AlwaysNot},
		{pods, `request.operation == "DELETE" && object.metadata.name == "a"`, AlwaysNot},
		{pods, `object.metadata.name == "a" && request.operation == "DELETE"`, AlwaysNot},
		{pods, `object.metadata.name == "a"`, Depends},
		{pods, `true || object.metadata.name == "a"`, AlwaysTrue},
		{pods, `has(request.namespace)`, Depends},
		{pods, `request.userInfo.username == "a"`, Depends},
		{pods, `oldObject == null`, AlwaysTrue},
		{pods, `namespaceObject.metadata.name == "a"`, Fails},
		{pods, `params.x == 1`, Depends},
		{pods, `authorizer.group("").resource("pods").check("get").allowed()`, Depends},
		{pods, `object.spec.containers.all(c, c.image == "a")`, Depends},
		{pods, `variables.pod`, AlwaysTrue},
		{pods, `variables.named || variables.pod`, AlwaysTrue},
		{pods, `variables.named`, Depends},
		{pods, `1 + 1`, Other},
		{deletion, `object.metadata.name == "a"`, Fails},
		{deletion, `oldObject.metadata.name == "a"`, Depends},
		{deletion, `request.resource.version == "v1"`, Depends},
		{kindKnown, `object.kind == "Pod"`, AlwaysTrue},
		{kindKnown, `object.apiVersion == "apps/v1" && object.spec.replicas > 1`, AlwaysNot},
		{kindKnown, `has(object.kind) && oldObject.kind != "Pod"`, AlwaysNot},
		{kindKnown, `object.kind == "Deployment" ? object.spec.replicas > 1 : true`, AlwaysTrue},
		{kindKnown, `object.spec.hostNetwork == true`, Depends},
		{kindKnown, `has(object.spec)`, Depends},
		{kindKnown, `object == oldObject`, Depends},
		{kindKnown, `object["kind"] == "Pod"`, Depends},
		{kindKnown, `variables.named`, Depends},
		{kindKnown, `["a"].all(x, object.kind == "Pod" || object.metadata.name == x)`, AlwaysTrue},
		{pods, `object.kind == "Pod"`, Depends},
		{pods, `object.spec.nodeName == oldObject.spec.nodeName`, Fails},
		{pods, `!(size(object.spec.containers) < 1 + size(oldObject.spec.containers))`, Fails},
		{pods, `object.metadata.name in [oldObject.metadata.name]`, Fails},
		{pods, `oldObject.spec.containers.all(c, c.image == object.metadata.name)`, Fails},
		{pods, `object.spec.containers.all(c, c.image == oldObject.metadata.name)`, Depends},
		{pods, `object.metadata.name.startsWith(oldObject.metadata.name) ? true : false`, Fails},
		{pods, `request.name == "a" ? true : oldObject.metadata.name == "b"`, Depends},
		{pods, `object.metadata.name == "a" || object.metadata.name == oldObject.metadata.name`, Depends},
	} {
		p := NewPartial(tt.known)
		p.Declare([]admissionregistrationv1.Variable{{Name: "pod", Expression: `request.resource.resource == "pods"`},
			{Name: "named", Expression: `object.metadata.name == "a"`}})
		got, message, err := p.Outcome(tt.text)
		if got != tt.want || err != nil || (got == Fails) != (message != "") {
			t.Errorf("%s: got %s, %q, %v, want %s", tt.text, got, message, err, tt.want)
		}
	}
	if _, _, err := NewPartial(pods).Outcome("request.resorce == 1"); err == nil {
		t.Error("an unknown field is no error")
	}
}

func TestFieldsRead(t *testing.T) {
	for text, want := range map[string][]string{
		`request.namespace != "a" && has(request.namespace)`: {"request.namespace"},
		`object.metadata.labels["a"] == request.name`:        {"object.metadata.labels", "request.name"},
		`[1, 2].all(x, x > 0)`:                               {"a comprehension"},
		`!(request.namespace in ["a", "b"])`:                 {"request.namespace"},
	} {
		if got, err := Reads(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}
