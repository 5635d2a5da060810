// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
)

// A fresh server starts with AlwaysDeny on, has all that a cluster begins with, and refuses
// everybody everything.
func TestAlwaysDeny(t *testing.T) {
	t.Parallel()
	s := start(t, gatehousetest.WithPlugins("AlwaysDeny"))
	for _, path := range []string{
		"/api/v1/namespaces/default", "/api/v1/namespaces/kube-system",
		"/api/v1/namespaces/default/services/kubernetes",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
		"/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
	} {
		s.send(t, request{method: "GET", path: path}).wantCode(t, http.StatusOK)
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, test := range []struct {
		request
		of string
	}{
		{request{method: "POST", path: maps, contentType: jsonType, body: []byte(`{"metadata":{"name":"a"}}`)},
			`configmaps "a"`},
		{request{method: "POST", path: maps + "?dryRun=All", contentType: jsonType,
			body: []byte(`{"metadata":{"generateName":"a-"}}`)}, `configmaps "a-"`},
		{request{method: "POST", path: "/api/v1/namespaces", contentType: jsonType,
			body: []byte(`{"metadata":{"name":"n"}}`)}, `namespaces "n"`},
		{request{method: "PATCH", path: "/api/v1/namespaces/default", contentType: mergePatchType,
			body: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}, `namespaces "default"`},
		{request{method: "PATCH", path: maps + "/applied?fieldManager=f", contentType: applyPatchType,
			body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"}}`)},
			`configmaps "applied"`},
		{request{method: "DELETE", path: "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"},
			`clusterroles.rbac.authorization.k8s.io "view"`},
		{request{method: "POST", path: "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true"}, `pods "p"`},
		{request{method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", contentType: jsonType,
			body: []byte(`{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`)},
			`selfsubjectaccessreviews.authorization.k8s.io "Unknown"`},
	} {
		s.send(t, test.request).wantRefused(t, http.StatusForbidden, metav1.StatusReasonForbidden,
			test.of+" is forbidden: admission control is denying all modifications")
	}
	s.send(t, request{method: "GET", path: maps + "/a"}).wantRefused(t, http.StatusNotFound,
		metav1.StatusReasonNotFound, `configmaps "a" not found`)
	s.wantReady(t)
}

// NamespaceAutoProvision makes the namespace that a request needs, before NamespaceLifecycle misses
// it.
func TestNamespaceAutoProvision(t *testing.T) {
	t.Parallel()
	s := start(t, gatehousetest.WithPlugins("NamespaceAutoProvision"))
	create := func(namespace, query string) answer {
		return s.send(t, request{method: "POST", path: fmt.Sprintf("/api/v1/namespaces/%s/configmaps%s", namespace,
			query), contentType: jsonType, body: []byte(`{"metadata":{"name":"a"}}`)})
	}
	wantMissing := func(namespace string) {
		t.Helper()
		if _, err := s.Client.CoreV1().Namespaces().Get(t.Context(), namespace,
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace %s: %v, want none", namespace, err)
		}
	}

	create("made", "").wantCode(t, http.StatusCreated)
	namespace, err := s.Client.CoreV1().Namespaces().Get(t.Context(), "made", metav1.GetOptions{})
	if err != nil || namespace.Status.Phase != corev1.NamespaceActive {
		t.Errorf("the namespace is %v: %v", namespace, err)
	}
	create("dry", "?dryRun=All").wantRefused(t, http.StatusNotFound, metav1.StatusReasonNotFound,
		`namespaces "dry" not found`)
	wantMissing("dry")
	a := s.send(t, request{method: "PATCH", path: "/api/v1/namespaces/applied/configmaps/a?fieldManager=f",
		contentType: applyPatchType,
		body:        []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)})
	a.wantCode(t, http.StatusCreated)
	s.send(t, request{method: "DELETE", path: "/api/v1/namespaces/nowhere/configmaps/a"}).
		wantRefused(t, http.StatusNotFound, metav1.StatusReasonNotFound, `configmaps "a" not found`)
	wantMissing("nowhere")
	s.send(t, request{method: "GET", path: "/api/v1/namespaces/nowhere/configmaps"}).wantCode(t, http.StatusOK)
	wantMissing("nowhere")
	s.send(t, request{method: "POST", path: "/api/v1/namespaces/nowhere/configmaps", contentType: jsonType,
		user: "alice", body: []byte(`{"metadata":{"name":"a"}}`)}).
		wantRefused(t, http.StatusForbidden, metav1.StatusReasonForbidden,
			`configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the `+
				`namespace "nowhere"`)
	wantMissing("nowhere")
}
