// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is known of a request decides some expressions, whatever the objects are.
func TestPartial(t *testing.T) {
	request := func(operation, group, version, resource, subresource string) *admissionv1.AdmissionRequest {
		dryRun := false
		return &admissionv1.AdmissionRequest{Operation: admissionv1.Operation(operation), SubResource: subresource,
			Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: resource}, DryRun: &dryRun}
	}
	unknown := []string{"name", "namespace", "userInfo", "dryRun", "kind", "requestKind", "requestResource"}
	pods := Known{Request: request("CREATE", "", "v1", "pods", ""), Unknown: unknown, NoOldObject: true, NoNamespace: true,
		Lacks: []string{"uid", "deletionTimestamp"}}
	scale := Known{Request: request("UPDATE", "apps", "v1", "deployments", "scale"), Unknown: unknown}
	deletion := Known{Request: request("DELETE", "", "", "pods", ""), Unknown: append(unknown, "resource.version"),
		NoObject: true}
	kindKnown := Known{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}
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
		{pods, `request.subResource == ""`, Fails},
		{pods, `request.subResource != "status" && has(object.spec)`, Depends},
		{pods, `has(request.subResource)`, AlwaysNot},
		{pods, `!has(request.subResource) || request.subResource == "status"`, AlwaysTrue},
		{pods, `request.requestKind.kind == "Pod"`, Depends},
		{pods, `has(object.metadata.uid)`, AlwaysNot},
		{pods, `object.metadata.uid != ""`, Fails},
		{pods, `has(object.metadata) && !has(object.metadata.deletionTimestamp)`, AlwaysTrue},
		{pods, `has(object.metadata.labels) && object.metadata.labels["a"] == "b"`, Depends},
		{pods, `object.metadata == oldObject`, Depends},
		{pods, `variables.uid == ""`, Fails},
		{scale, `request.subResource == "scale"`, AlwaysTrue},
		{scale, `object.spec.replicas < 3 && has(object.metadata.uid)`, Depends},
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
			{Name: "named", Expression: `object.metadata.name == "a"`}, {Name: "uid", Expression: "object.metadata.uid"}})
		got, message, err := p.Outcome(tt.text, Condition)
		if got != tt.want || err != nil || got == Fails && message == "" || message != "" && got != Fails && got != Depends {
			t.Errorf("%s: got %s, %q, %v, want %s", tt.text, got, message, err, tt.want)
		}
	}
	if _, _, err := NewPartial(pods).Outcome("request.resorce == 1", Condition); err == nil {
		t.Error("an unknown field is no error")
	}
	for text, want := range map[string]string{
		`object.spec.replicas < 3 || request.subResource == "status"`: "no such key: subResource",
		`object.spec.replicas < 3 || oldObject == null`:               "",
		`has(object.spec) && (has(object.status) || oldObject.a)`:     "no such key: a",
		`object.spec.replicas < 3`:                                    "",
	} {
		if _, message, err := NewPartial(pods).Outcome(text, Condition); !strings.Contains(message, want) || want == "" && message != "" {
			t.Errorf("%s: %q, %v, want %q", text, message, err, want)
		}
	}
	for text, want := range map[string]Outcome{
		`Object{metadata: Object.metadata{labels: {"a": object.metadata.name}}}`:    Depends,
		`Object{metadata: Object.metadata{labels: {"a": oldObject.metadata.name}}}`: Fails,
	} {
		if got, message, err := NewPartial(pods).Outcome(text, ApplyConfiguration); got != want || err != nil {
			t.Errorf("%s: %s, %q, %v, want %s", text, got, message, err, want)
		}
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
