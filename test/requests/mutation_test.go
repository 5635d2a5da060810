// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"

	"gatehouse.dev/test/servertest"
)

// mark is a mutation that tells by what it was made.
func mark(_ context.Context, a admission.Attributes) error {
	switch object := a.GetObject().(type) {
	case *appsv1.Deployment:
		object.Spec.Template.Annotations = map[string]string{"marked-in": string(a.GetOperation())}
	case *unstructured.Unstructured:
		return unstructured.SetNestedField(object.Object, string(a.GetOperation()), "spec", "marked-in")
	}
	return nil
}

// What a plugin changes is stored, whichever way the object came.
func TestMutationIsStored(t *testing.T) {
	namespace := shared.namespace(t, "mutations")
	first.during(t, namespace, hook{admit: mark})
	const path = "/apis/apps/v1/namespaces/mutations/deployments"
	const spec = `"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"c","image":"i"}]}}}`
	for _, test := range []struct {
		name, request, contentType, body string
		code                             int
		operation                        admission.Operation
	}{
		{"create", "POST " + path, jsonType, `{"metadata":{"name":"d"},` + spec + "}", 201, admission.Create},
		{"update", "PUT " + path + "/d", jsonType, `{"metadata":{"name":"d","labels":{"x":"1"}},` + spec + "}", 200,
			admission.Update},
		{"JSON patch", "PATCH " + path + "/d", jsonPatchType,
			`[{"op":"remove","path":"/spec/template/metadata/annotations"}]`, 200, admission.Update},
		{"merge patch", "PATCH " + path + "/d", mergePatchType,
			`{"spec":{"template":{"metadata":{"annotations":null}}}}`, 200, admission.Update},
		{"strategic merge patch", "PATCH " + path + "/d", strategicPatchType,
			`{"spec":{"template":{"metadata":{"annotations":null}}}}`, 200, admission.Update},
		{"apply what is there", "PATCH " + path + "/d?fieldManager=applier&force=true", applyPatchType,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},` + spec + "}", 200, admission.Update},
		{"apply what isn't there", "PATCH " + path + "/applied?fieldManager=applier", applyPatchType,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"applied"},` + spec + "}", 201,
			admission.Create},
		{"create dry", "POST " + path + "?dryRun=All", jsonType, `{"metadata":{"name":"dry"},` + spec + "}", 201,
			admission.Create},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, path, _ := strings.Cut(test.request, " ")
			a := shared.send(t,
				request{method: method, path: path, contentType: test.contentType, body: []byte(test.body)})
			a.wantCode(t, test.code)
			var answered appsv1.Deployment
			if err := json.Unmarshal(a.body, &answered); err != nil {
				t.Fatal(err)
			}
			if got := answered.Spec.Template.Annotations["marked-in"]; got != string(test.operation) {
				t.Errorf("the answer is marked %q, want %s", got, test.operation)
			}
			stored, err := shared.Client.AppsV1().Deployments(namespace).Get(t.Context(), answered.Name,
				metav1.GetOptions{})
			if strings.HasSuffix(path, "dryRun=All") {
				if !apierrors.IsNotFound(err) {
					t.Errorf("a dry run has stored %v (%v)", stored, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stored.TypeMeta = answered.TypeMeta // clients drop it
			if diff := cmp.Diff(&answered, stored); diff != "" {
				t.Errorf("what was answered is not what is stored (-answered +stored):\n%s", diff)
			}
		})
	}
}

// Fields that plugins set belong to nobody, as in Kubernetes; so an applier who says the same again
// changes nothing, and who says otherwise has no conflict with a plugin.
func TestMutationsAndFieldManagers(t *testing.T) {
	namespace := shared.namespace(t, "managers")
	first.during(t, namespace, hook{admit: func(_ context.Context, a admission.Attributes) error {
		if object, ok := a.GetObject().(*corev1.ConfigMap); ok {
			object.Data["plugin"] = "1"
		}
		return nil
	}})
	maps := shared.Client.CoreV1().ConfigMaps(namespace)
	force := false
	apply := func(data string) (*corev1.ConfigMap, error) {
		return maps.Patch(t.Context(), "a", types.ApplyPatchType,
			fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{%s}}`, data),
			metav1.PatchOptions{FieldManager: "applier", Force: &force})
	}
	made, err := apply(`"own":"1"`)
	if err != nil {
		t.Fatal(err)
	}
	wantManaged := func(o *corev1.ConfigMap, want ...string) {
		t.Helper()
		var got []string
		for _, entry := range o.ManagedFields {
			got = append(got,
				fmt.Sprintf("%s %s %s %s", entry.Manager, entry.Operation, entry.APIVersion, entry.FieldsV1.GetRawString()))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("managed fields (-want +got):\n%s", diff)
		}
	}
	wantManaged(made, `applier Apply v1 {"f:data":{"f:own":{}}}`)
	if want := map[string]string{"own": "1", "plugin": "1"}; !cmp.Equal(made.Data, want) {
		t.Errorf("data is %v, want %v", made.Data, want)
	}
	again, err := apply(`"own":"1"`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made, again); diff != "" {
		t.Errorf("applied again, it changed (-first +second):\n%s", diff)
	}
	taken, err := apply(`"own":"1","plugin":"2"`)
	if err != nil {
		t.Fatal(err)
	}
	wantManaged(taken, `applier Apply v1 {"f:data":{"f:own":{},"f:plugin":{}}}`)
}

// A plugin that spoils the managed fields doesn't spoil what is stored: the server takes those
// before admission, and says so.
func TestSpoiledManagedFields(t *testing.T) {
	namespace := shared.namespace(t, "spoiled")
	first.during(t, namespace, hook{admit: func(_ context.Context, a admission.Attributes) error {
		if object, ok := a.GetObject().(*corev1.ConfigMap); ok {
			object.ManagedFields[0].Operation = "Nonsense"
			object.Data = map[string]string{"plugin": "1"}
		}
		return nil
	}})
	a := shared.send(t, request{method: "POST", path: "/api/v1/namespaces/spoiled/configmaps", contentType: jsonType,
		body: []byte(`{"metadata":{"name":"a"},"data":{"own":"1"}}`)})
	a.wantCode(t, http.StatusCreated)
	var made corev1.ConfigMap
	if err := json.Unmarshal(a.body, &made); err != nil {
		t.Fatal(err)
	}
	if len(made.ManagedFields) != 1 || made.ManagedFields[0].Operation != metav1.ManagedFieldsOperationUpdate ||
		made.Data["plugin"] != "1" {
		t.Errorf("made is %+v", made)
	}
	prefix, _, _ := strings.Cut(fieldmanager.InvalidManagedFieldsAfterMutatingAdmissionWarningFormat, "%")
	if got := a.header.Get("Warning"); !strings.HasPrefix(got, `299 - "`+prefix) {
		t.Errorf("the warning is %q", got)
	}
}

// A plugin sees k8s.io/api's types, and need not know Kubernetes' defaults to add a container:
// behind a webhook, the same code's object is defaulted by the API server.
func TestMutatedObjectIsDefaulted(t *testing.T) {
	namespace := shared.namespace(t, "defaulted")
	first.during(t, namespace, hook{admit: func(_ context.Context, a admission.Attributes) error {
		if pod, ok := a.GetObject().(*corev1.Pod); ok {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar", Image: "nginx:2"})
		}
		return nil
	}})
	pod, err := shared.Client.CoreV1().Pods(namespace).Create(t.Context(), newPod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if sidecar := pod.Spec.Containers[1]; sidecar.ImagePullPolicy != corev1.PullIfNotPresent ||
		sidecar.TerminationMessagePolicy != corev1.TerminationMessageReadFile {
		t.Errorf("the container is %+v", sidecar)
	}
}

// Custom resources, which have no Go type, are changed and stored as all others are.
func TestCustomResourceIsMutated(t *testing.T) {
	namespace := shared.namespace(t, "custom")
	first.during(t, namespace, hook{admit: mark})
	name := "marks.custom.example.com"
	definition := strings.NewReplacer("gadgets.types.example.com", name, "types.example.com", "custom.example.com",
		"gadgets", "marks", "Gadget", "Mark",
		`"size":{"type":"integer"}}},"status"`,
		`"size":{"type":"integer"},"marked-in":{"type":"string"}}},"status"`).Replace(crd)
	shared.send(t, request{method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		contentType: jsonType, body: []byte(definition)}).wantCode(t, http.StatusCreated)
	path := "/apis/custom.example.com/v1/namespaces/custom/marks"
	servertest.Eventually(t, "the custom resource to be served", func() bool {
		a, err := shared.do(t.Context(), request{method: "GET", path: path})
		return err == nil && a.code == http.StatusOK
	})
	object := `{"apiVersion":"custom.example.com/v1","kind":"Mark","metadata":{"name":"m"},"spec":{"size":1}}`
	for _, test := range []struct {
		request, contentType, body string
		code                       int
		operation                  string
	}{
		{"PATCH " + path + "/m?fieldManager=f", applyPatchType, object, 201, "CREATE"},
		{"PATCH " + path + "/m", mergePatchType, `{"spec":{"size":2}}`, 200, "UPDATE"},
	} {
		method, requestPath, _ := strings.Cut(test.request, " ")
		shared.send(t, request{method: method, path: requestPath, contentType: test.contentType,
			body: []byte(test.body)}).wantCode(t, test.code)
		var stored unstructured.Unstructured
		if err := json.Unmarshal(shared.send(t, request{method: "GET", path: path + "/m"}).body, &stored); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedString(stored.Object, "spec", "marked-in"); got != test.operation {
			t.Errorf("%s: stored is marked %q, want %s", test.request, got, test.operation)
		}
	}
}
