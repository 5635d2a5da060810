// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/plugin"
)

// A plugin that names resources is asked about nothing else, and its place among the others stays.
func TestResources(t *testing.T) {
	var calls []string
	about := func(name string, operations []admission.Operation, resources ...plugin.Resource) plugin.Descriptor {
		say := func(admission.Attributes) error { calls = append(calls, name); return nil }
		d := described(name, fake{operations: operations, admit: say, validate: say})
		d.Resources = resources
		return d
	}
	group := schema.GroupResource{Group: pods.Group, Resource: "pods"}
	c := newChain(t, []plugin.Descriptor{
		about("resizes", nil, plugin.On(group, "resize")...),
		about("everything", nil),
		about("pods", nil, plugin.On(group)...),
		about("pods and resizes", nil, plugin.On(group, "", "resize")...),
		about("everything created", []admission.Operation{admission.Create}),
		about("claims created", []admission.Operation{admission.Create},
			plugin.On(schema.GroupResource{Group: pods.Group, Resource: "claims"})...),
		about("pods of another group", nil, plugin.On(schema.GroupResource{Group: "other", Resource: "pods"})...),
		about("at last everything", nil),
	})
	for name, test := range map[string]struct {
		operation             admission.Operation
		resource, subresource string
		want                  []string
	}{
		"pods": {admission.Create, "pods", "", []string{
			"everything", "pods", "pods and resizes", "everything created", "at last everything"}},
		"another operation": {admission.Update, "pods", "", []string{
			"everything", "pods", "pods and resizes", "at last everything"}},
		"their resize": {admission.Update, "pods", "resize", []string{
			"resizes", "everything", "pods and resizes", "at last everything"}},
		"their status": {admission.Update, "pods", "status", []string{"everything", "at last everything"}},
		"claims": {admission.Create, "claims", "", []string{
			"everything", "everything created", "claims created", "at last everything"}},
		"claims, updated": {admission.Update, "claims", "", []string{"everything", "at last everything"}},
		"what nobody names": {admission.Create, "services", "", []string{
			"everything", "everything created", "at last everything"}},
	} {
		t.Run(name, func(t *testing.T) {
			calls = nil
			a := admission.NewAttributesRecord(newPod(), nil, podKind, "shop", "web",
				pods.GroupVersion().WithResource(test.resource), test.subresource, test.operation,
				&metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "jane"})
			if err := c.Admit(context.Background(), a, newInterfaces()); err != nil {
				t.Fatal(err)
			}
			mutating := calls
			calls = nil
			if err := c.Validate(context.Background(), a, newInterfaces()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(mutating, test.want) || !reflect.DeepEqual(calls, test.want) {
				t.Errorf("asked are %q, then %q, want %q", mutating, calls, test.want)
			}
		})
	}
}

// What is only about some resources makes the chain handle an operation, too.
func TestHandlesSomeResources(t *testing.T) {
	d := described("a", fake{operations: []admission.Operation{admission.Update}, admit: idle})
	d.Resources = plugin.On(pods.GroupResource())
	c := newChain(t, []plugin.Descriptor{d})
	if !c.Handles(admission.Update) || c.Handles(admission.Create) {
		t.Errorf("Handles(UPDATE) is %t, Handles(CREATE) is %t", c.Handles(admission.Update),
			c.Handles(admission.Create))
	}
}
