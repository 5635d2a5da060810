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

	"gatehouse.dev/webhook/webhooktest"
)

// gadgets are a custom resource of which anything goes that is an object.
func gadgets(t *testing.T) schema.GroupVersionResource {
	t.Helper()
	anything := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.faults.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "faults.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything},
			}}},
		},
	}
	crds := apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = crds.Delete(context.Background(), crd.Name, metav1.DeleteOptions{}) })
	gvr := schema.GroupVersionResource{Group: "faults.example.com", Version: "v1", Resource: "gadgets"}
	eventually(t, "the custom resource to be served", func() bool {
		_, err := dynamicClient.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return gvr
}

// A custom resource has no type that would refuse a patch; what is no object of the API is refused all the same.
func TestBadPatchesOfCustomResources(t *testing.T) {
	resource := gadgets(t)
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow())
	install(t, mutatingPhase, ns, faulty{backend: b.ClientConfig("/"), rule: ptr(rule("faults.example.com", "v1", "gadgets", "CREATE"))})
	for i, test := range []struct{ patch, want string }{
		{`[{"op":"replace","path":"","value":null}]`, "x"},
		{`[{"op":"replace","path":"","value":[]}]`, "x"},
		{`[{"op":"replace","path":"","value":"x"}]`, "x"},
		{`[{"op":"replace","path":"","value":{}}]`, "x"},
		{`[{"op":"remove","path":"/metadata"}]`, "x"},
		{`[{"op":"replace","path":"/metadata","value":"x"}]`, "x"},
		{`[{"op":"replace","path":"/metadata","value":null}]`, "x"},
		{`[{"op":"replace","path":"/metadata/name","value":5}]`, "x"},
		{`[{"op":"add","path":"/metadata/labels","value":5}]`, "x"},
		{`[{"op":"add","path":"/metadata/labels","value":{"a":5}}]`, "x"},
		{`[{"op":"add","path":"/metadata/ownerReferences","value":[5]}]`, "x"},
		{`[{"op":"add","path":"/metadata/managedFields","value":{"a":"b"}}]`, "x"},
		{`[{"op":"add","path":"/metadata/creationTimestamp","value":{}}]`, "x"},
		{`[{"op":"replace","path":"/kind","value":"Widget"}]`, "x"},
		{`[{"op":"replace","path":"/kind","value":5}]`, "x"},
		{`[{"op":"remove","path":"/apiVersion"}]`, "x"},
		{`[{"op":"add","path":"/spec","value":"anything"}]`, ""},
		{`[{"op":"add","path":"/spec","value":{"a":1e400}}]`, "x"},
		{`[{"op":"add","path":"/spec","value":{"a":18446744073709551616}}]`, ""},
		{strings.Replace(doublings(40), "/data", "/spec", -1), "x"},
		{`[{"op":"add","path":"/spec/x","value":` + strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000) + `}]`, "x"},
	} {
		name := fmt.Sprint("g", i)
		t.Run(fmt.Sprintf("%.80s", test.patch), func(t *testing.T) {
			b.SetHandler(webhooktest.Patch(test.patch))
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "faults.example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": name}, "spec": map[string]any{},
			}}
			got, err := dynamicClient.Resource(resource).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{})
			t.Logf("%v %v", err, got)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !regexp.MustCompile(test.want).MatchString(err.Error()) {
				t.Errorf("the error is %v, want %s", err, test.want)
			}
			if _, err := dynamicClient.Resource(resource).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the object should not be stored: %v", err)
			}
		})
	}
	wantAlive(t)
}
