// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/webhook/server"
)

func shop(name string, open bool) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"open": open},
	}}
}

func connect(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openOnly refuses closed shops.
func openOnly(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
	asked, err := server.Object[struct {
		Spec struct {
			Open bool `json:"open"`
		} `json:"spec"`
	}](request)
	if err != nil {
		return server.Errored(err)
	}
	if !asked.Spec.Open {
		return server.Denied("closed shops are of no use")
	}
	return server.Allowed()
}

// What a test needs of a server: custom kinds and webhooks from files, users, and an end to what
// was made.
func TestInstall(t *testing.T) {
	srv := gatehousetest.Start(t)
	if err := srv.CRDs(t.Context(), "testdata/crds"); err != nil {
		t.Fatal(err)
	}
	if err := srv.CRDs(t.Context(), "testdata/crds/deep/shops.yaml"); err != nil {
		t.Errorf("once more: %v", err)
	}
	admin := connect(t, srv.Config)
	if err := admin.Create(t.Context(), shop("first", false)); err != nil {
		t.Fatal(err)
	}
	before, err := srv.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a reset server is as the one before
		use(t, srv, admin)
		began := time.Now()
		if err := before.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("the reset took %v", time.Since(began))
		unused(t, srv, admin)
	}
}

// use changes a server in every way that a test may.
func use(t *testing.T, srv *gatehousetest.Server, admin client.Client) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/validate", server.Handler(openOnly))
	if err := srv.Webhooks(t.Context(), mux, "testdata/webhooks.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), shop("open", true)); err != nil {
		t.Error(err)
	}
	err := admin.Create(t.Context(), shop("closed", false))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "closed shops") {
		t.Errorf("the webhook should refuse it: %v", err)
	}

	config, err := srv.User("keeper", "keepers")
	if err != nil {
		t.Fatal(err)
	}
	keeper := connect(t, config)
	if err := keeper.Get(t.Context(), client.ObjectKey{Name: "default"},
		&corev1.Namespace{}); !apierrors.IsForbidden(err) {
		t.Errorf("keeper may already read a namespace: %v", err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "keepers"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"},
			Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "keepers"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "keepers"}}}
	stuck := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{"example.com/stuck"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "stuck"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}}}
	for _, object := range []client.Object{role, binding, stuck, pod} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	first := shop("first", true)
	if err := admin.Patch(t.Context(), first, client.Merge); err != nil {
		t.Error(err)
	}
	public := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-public"}}
	if err := admin.Patch(t.Context(), public, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"changed":"yes"}}}`))); err != nil {
		t.Error(err)
	}
	if err := admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt",
		Namespace: "kube-public"}}); err != nil {
		t.Error(err)
	}
	for i := range 100 {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("made-", i), Namespace: "default"}}
		if err := admin.Create(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
}

// unused wants a server to be as nobody had used it, at once.
func unused(t *testing.T, srv *gatehousetest.Server, admin client.Client) {
	t.Helper()
	config, err := srv.User("keeper", "keepers")
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, config).Get(t.Context(), client.ObjectKey{Name: "default"},
		&corev1.Namespace{}); !apierrors.IsForbidden(err) {
		t.Errorf("keeper may still read a namespace: %v", err)
	}
	closed := shop("closed", false)
	if err := admin.Create(t.Context(), closed); err != nil {
		t.Errorf("the webhook is still asked: %v", err)
	}
	if err := admin.Delete(t.Context(), closed); err != nil {
		t.Error(err)
	}
	first := shop("first", true)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
		t.Fatal(err)
	}
	if open, _, _ := unstructured.NestedBool(first.Object, "spec", "open"); open {
		t.Error("a shop is still open")
	}
	clients := kubernetes.NewForConfigOrDie(srv.Config)
	namespaces, err := clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range namespaces.Items {
		if namespace.Name == "stuck" || namespace.Labels["changed"] != "" {
			t.Errorf("there is still %s %v", namespace.Name, namespace.Labels)
		}
	}
	if len(namespaces.Items) != 4 {
		t.Errorf("there are %d namespaces", len(namespaces.Items))
	}
	maps, err := clients.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	roots := 0
	for _, config := range maps.Items {
		if strings.HasPrefix(config.Name, "made-") {
			t.Errorf("there is still %s", config.Name)
		}
		if config.Name == "kube-root-ca.crt" {
			roots++
		}
	}
	if roots != 4 {
		t.Errorf("%d namespaces have their root certificates", roots)
	}
}

// What is wrong with files is said with their names.
func TestInstallErrors(t *testing.T) {
	srv := &gatehousetest.Server{Config: &rest.Config{Host: "https://127.0.0.1:1"}}
	old := filepath.Join(t.TempDir(), "old.yaml")
	if err := os.WriteFile(old, []byte("apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n"+
		"metadata: {name: shops.example.com}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, paths := range map[string][]string{
		"no file or folder is named":                  nil,
		"testdata/none":                               {"testdata/none"},
		"there is nothing to make in":                 {"testdata/webhooks.yaml"},
		"is of version v1beta1, which is no longer s": {old},
	} {
		if err := srv.CRDs(t.Context(), paths...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", paths, err, want)
		}
	}
	if _, err := srv.Checkpoint(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd of its own") {
		t.Errorf("a checkpoint of a shared server: %v", err)
	}
}
