// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/test/servertest"
)

// crd is a definition with a scale subresource.
const crd = `{"metadata":{"name":"gadgets.types.example.com"},"spec":{"group":"types.example.com","scope":"Namespaced",
	"names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true,
	"subresources":{"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}},
	"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
		"properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}},"status":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`

// describeTypes says what a plugin sees: the operation, the resource, and the objects' types with
// the kinds that they say they are.
func describeTypes(_, phase string, a admission.Attributes) string {
	show := func(object runtime.Object) string {
		if object == nil {
			return "none"
		}
		return fmt.Sprintf("%T", object)
	}
	resource := a.GetResource().Resource
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	line := fmt.Sprintf("%s %s %s %s: %s, old %s", phase, a.GetOperation(), resource, a.GetName(), show(a.GetObject()),
		show(a.GetOldObject()))
	for _, object := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
		if object != nil && object.GetObjectKind().GroupVersionKind() != a.GetKind() {
			line += fmt.Sprintf(" (which says it is a %s, not a %s)", object.GetObjectKind().GroupVersionKind(),
				a.GetKind())
		}
	}
	return line
}

// Plugins see objects in the types of k8s.io/api, in the version of the request, in both phases.
func TestTypes(t *testing.T) {
	namespace := shared.namespace(t, "types")
	const core, apps = "/api/v1/namespaces/types/", "/apis/apps/v1/namespaces/types/"
	const deployment = `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	const gadgets = "/apis/types.example.com/v1/namespaces/types/gadgets"
	shared.send(t, request{method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		contentType: jsonType, body: []byte(crd)}).
		wantCode(t, http.StatusCreated)
	t.Cleanup(func() {
		_, _ = shared.do(context.Background(), request{method: "DELETE",
			path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.types.example.com"})
	})
	servertest.Eventually(t, "the custom resource to be served", func() bool {
		a, err := shared.do(t.Context(), request{method: "GET", path: gadgets})
		return err == nil && a.code == http.StatusOK
	})

	// What controllers make in the namespace would be seen, too.
	servertest.Eventually(t, "the namespace to have all that it gets", func() bool {
		account, err := shared.do(t.Context(), request{method: "GET", path: core + "serviceaccounts/default"})
		certificate, err2 := shared.do(t.Context(), request{method: "GET", path: core + "configmaps/kube-root-ca.crt"})
		return err == nil && err2 == nil && account.code == http.StatusOK && certificate.code == http.StatusOK
	})
	j := recording(t, namespace, describeTypes, last)

	for _, test := range []struct {
		request string
		body    string
		code    int
		// sees is what both phases see, one line each request.
		sees []string
	}{
		{"POST " + core + "pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201,
			[]string{"CREATE pods p: *v1.Pod, old none"}},
		{"POST " + core + "pods/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n"}}`, 201,
			[]string{"CREATE pods/binding p: *v1.Binding, old none"}},
		{"POST " + core + "pods/p/exec?command=ls&stdout=true", "", 404,
			[]string{"CONNECT pods/exec p: *v1.PodExecOptions, old none"}},
		{"GET " + core + "pods/p/attach?stdout=true", "", 404,
			[]string{"CONNECT pods/attach p: *v1.PodAttachOptions, old none"}},
		{"POST " + core + "pods/p/portforward", "", 404,
			[]string{"CONNECT pods/portforward p: *v1.PodPortForwardOptions, old none"}},
		{"GET " + core + "pods/p/log", "", 404, nil}, // reads don't pass admission
		{"PATCH " + core + "pods/p/status", `{"status":{"phase":"Pending","message":"m"}}`, 200,
			[]string{"UPDATE pods/status p: *v1.Pod, old *v1.Pod"}},
		{"PATCH " + core + "pods/p/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`,
			200,
			[]string{"UPDATE pods/ephemeralcontainers p: *v1.Pod, old *v1.Pod"}},
		{"POST " + core + "pods/p/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`,
			201,
			[]string{"CREATE pods/eviction p: *v1.Eviction, old none"}},
		{"DELETE " + core + "pods/p?gracePeriodSeconds=0", "", 200,
			[]string{"DELETE pods p: none, old *v1.Pod"}},
		{"POST " + core + "serviceaccounts/default/token", `{"spec":{}}`, 201,
			[]string{"CREATE serviceaccounts/token default: *v1.TokenRequest, old none"}},
		{"POST " + apps + "deployments", deployment, 201,
			[]string{"CREATE deployments d: *v1.Deployment, old none"}},
		{"PUT " + apps + "deployments/d", strings.Replace(deployment, `"spec":{`, `"spec":{"paused":true,`, 1), 200,
			[]string{"UPDATE deployments d: *v1.Deployment, old *v1.Deployment"}},
		{"PATCH " + apps + "deployments/d/scale", `{"spec":{"replicas":2}}`, 200,
			[]string{"UPDATE deployments/scale d: *v1.Scale, old *v1.Scale"}},
		{"POST /apis/autoscaling/v1/namespaces/types/horizontalpodautoscalers",
			`{"metadata":{"name":"h"},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1",` +
				`"kind":"Deployment","name":"d"}}}`, 201,
			[]string{"CREATE horizontalpodautoscalers h: *v1.HorizontalPodAutoscaler, old none"}},
		{"PATCH /apis/autoscaling/v2/namespaces/types/horizontalpodautoscalers/h", `{"spec":{"maxReplicas":3}}`, 200,
			[]string{"UPDATE horizontalpodautoscalers h: *v2.HorizontalPodAutoscaler, old " +
				"*v2.HorizontalPodAutoscaler"}},
		{"POST " + core + "secrets", `{"metadata":{"name":"s1"}}`, 201,
			[]string{"CREATE secrets s1: *v1.Secret, old none"}},
		{"POST " + core + "secrets", `{"metadata":{"name":"s2"}}`, 201,
			[]string{"CREATE secrets s2: *v1.Secret, old none"}},
		// Not by POST, which waits two seconds where the definition is new, for other servers to
		// know it.
		{"PATCH " + gadgets + "/g?fieldManager=f",
			`{"apiVersion":"types.example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":1}}`, 201,
			[]string{"CREATE gadgets g: *unstructured.Unstructured, old none"}},
		{"PATCH " + gadgets + "/g", `{"spec":{"size":2}}`, 200,
			[]string{"UPDATE gadgets g: *unstructured.Unstructured, old *unstructured.Unstructured"}},
		{"PATCH " + gadgets + "/g/scale", `{"spec":{"replicas":3}}`, 200,
			[]string{"UPDATE gadgets/scale g: *v1.Scale, old *v1.Scale"}},
		{"DELETE " + gadgets + "/g", "", 200,
			[]string{"DELETE gadgets g: none, old *unstructured.Unstructured"}},
		{"POST /apis/authorization.k8s.io/v1/namespaces/types/localsubjectaccessreviews",
			`{"metadata":{"namespace":"types"},"spec":{"user":"u","resourceAttributes":{"namespace":"types",` +
				`"verb":"get","resource":"pods"}}}`, 201,
			[]string{"CREATE localsubjectaccessreviews : *v1.LocalSubjectAccessReview, old none"}},
	} {
		t.Run(test.request, func(t *testing.T) {
			method, path, _ := strings.Cut(test.request, " ")
			contentType := jsonType
			if strings.Contains(path, "fieldManager") {
				contentType = applyPatchType
			} else if method == "PATCH" {
				contentType = mergePatchType
			}
			shared.send(t, request{method: method, path: path, contentType: contentType,
				body: []byte(test.body)}).wantCode(t, test.code)
			var want []string
			for _, phase := range []string{"admit ", "validate "} {
				for _, line := range test.sees {
					want = append(want, phase+line)
				}
			}
			// Where the stored object turns out to be newer than the watch cache's, the registry
			// asks once more.
			lines := j.read()
			slices.Sort(lines)
			wantLines(t, slices.Compact(lines), want...)
		})
	}

	// Each object of a collection by itself, in some order. The request's name is not theirs: it
	// has none.
	j = recording(t, namespace, func(plugin, phase string, a admission.Attributes) string {
		line := describeTypes(plugin, phase, a)
		if old, err := meta.Accessor(a.GetOldObject()); err == nil {
			line += " " + old.GetName()
		}
		return line
	}, last)
	shared.send(t, request{method: "DELETE", path: core + "secrets"}).wantCode(t, http.StatusOK)
	lines := j.read()
	slices.Sort(lines)
	wantLines(t, slices.Compact(lines),
		"admit DELETE secrets : none, old *v1.Secret s1", "admit DELETE secrets : none, old *v1.Secret s2",
		"validate DELETE secrets : none, old *v1.Secret s1", "validate DELETE secrets : none, old *v1.Secret s2")
}
