// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// gadgets are a custom resource of which anything goes that is an object.
func gadgets(t *testing.T) schema.GroupVersionResource {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.faults.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "faults.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
						XPreserveUnknownFields: new(true)},
				}}},
		},
	}
	crds := apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crds.Delete(context.Background(), crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
			return
		}
		servertest.Eventually(t, "the custom resource to be gone", func() bool {
			_, err := crds.Get(context.Background(), crd.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
	gvr := schema.GroupVersionResource{Group: "faults.example.com", Version: "v1", Resource: "gadgets"}
	servertest.Eventually(t, "the custom resource to be served", func() bool {
		_, err := dynamicClient.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return gvr
}

// A custom resource has no type that would refuse a patch; what is no object of the API is refused
// all the same.
func TestBadPatchesOfCustomResources(t *testing.T) {
	resource := gadgets(t)
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow())
	install(t, mutatingPhase, ns,
		faulty{backend: b.ClientConfig("/"), rule: new(rule("faults.example.com", "v1", "gadgets", "CREATE"))})
	const unread = denial + "returned a patch that makes the object invalid: "
	const badMetadata = `Gadget.faults.example.com ".*" is invalid: metadata: Invalid value: {.*}: `
	for i, test := range []struct {
		patch string
		want  string // "": the object is stored
	}{
		{`[{"op":"replace","path":"","value":null}]`, denial + "returned a patch that can't be applied: .*"},
		{`[{"op":"replace","path":"","value":[]}]`, unread + "json: cannot unmarshal array .*"},
		{`[{"op":"replace","path":"","value":"x"}]`, denial + "returned a patch that can't be applied: .*"},
		{`[{"op":"replace","path":"","value":{}}]`, unread + "Object 'Kind' is missing in '{}'"},
		{`[{"op":"replace","path":"/kind","value":5}]`, unread + "Object 'Kind' is missing in .*"},
		{`[{"op":"replace","path":"/kind","value":"Widget"}]`, unread +
			"apiVersion and kind must stay those of faults.example.com/v1, Kind=Gadget, not become those of " +
			"faults.example.com/v1, Kind=Widget"},
		{`[{"op":"add","path":"/spec","value":{"a":1e400}}]`, unread + "json: cannot unmarshal number 1e400 .*"},
		{strings.ReplaceAll(doublings(40), "/data", "/spec"), denial +
			"returned a patch that can't be applied: Unable to complete the copy, .*"},
		{`[{"op":"remove","path":"/metadata"}]`,
			`Gadget.faults.example.com "" is invalid: metadata.name: Required value: name or generateName is required`},
		// What metadata can't be set in is none.
		{`[{"op":"replace","path":"/metadata","value":"x"}]`,
			"Internal error occurred: system metadata was not initialized"},
		{`[{"op":"replace","path":"/metadata","value":null}]`,
			"Internal error occurred: system metadata was not initialized"},
		// Metadata of other types is refused by the API. Until Kubernetes 1.36 it was dropped.
		{`[{"op":"replace","path":"/metadata/name","value":5}]`, badMetadata + "cannot convert int64 to string"},
		{`[{"op":"add","path":"/metadata/labels","value":5}]`, badMetadata + "cannot restore map from int64"},
		{`[{"op":"add","path":"/metadata/labels","value":{"a":5}}]`, badMetadata + "cannot convert int64 to string"},
		{`[{"op":"add","path":"/metadata/ownerReferences","value":[5]}]`,
			badMetadata + "cannot restore struct from: int64"},
		{`[{"op":"add","path":"/metadata/managedFields","value":{"a":"b"}}]`,
			badMetadata + "cannot restore slice from map"},
		{`[{"op":"add","path":"/metadata/creationTimestamp","value":{}}]`, ""},
		{`[{"op":"remove","path":"/apiVersion"}]`, ""},
		{`[{"op":"add","path":"/spec","value":"anything"}]`, ""},
		{`[{"op":"add","path":"/spec","value":{"a":18446744073709551616}}]`, ""},
		{`[{"op":"add","path":"/spec/x","value":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) +
			`}]`, ""},
	} {
		name := fmt.Sprint("g", i)
		t.Run(fmt.Sprintf("%.80s", test.patch), func(t *testing.T) {
			b.SetHandler(webhooktest.Patch(test.patch))
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "faults.example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": name},
				"spec": map[string]any{},
			}}
			_, err := dynamicClient.Resource(resource).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{})
			_, getErr := dynamicClient.Resource(resource).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
			if test.want == "" {
				if err != nil || getErr != nil {
					t.Errorf("the object should be stored: %v, %v", err, getErr)
				}
				return
			}
			if err == nil || !regexp.MustCompile("^(?:"+test.want+")$").MatchString(err.Error()) {
				t.Errorf("the error is %v, want %s", err, test.want)
			}
			if !apierrors.IsNotFound(getErr) {
				t.Errorf("the object should not be stored: %v", getErr)
			}
		})
	}
	wantAlive(t)
}
