// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
)

// The suites of a repository, as a test of its own: go test shows each case.
func ExampleRunSuites() {
	_ = func(t *testing.T) { // func TestPolicies
		gatehousetest.RunSuites(t, "policies")
	}
}

// The server asks your webhooks as their manifests say. Webhooks takes care of addresses and
// certificates.
func ExampleServer_Webhooks() {
	var webhooks http.Handler // yours
	_ = func(t *testing.T) {  // func TestWebhooks
		srv := gatehousetest.Start(t)
		if err := srv.Webhooks(t.Context(), webhooks, "../config/webhook"); err != nil {
			t.Fatal(err)
		}
	}
}

// A user who isn't an administrator, to see what roles allow.
func ExampleServer_User() {
	_ = func(t *testing.T) { // func TestRights
		srv := gatehousetest.Start(t)
		config, err := srv.User("jane", "developers")
		if err != nil {
			t.Fatal(err)
		}
		_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("jane may list Secrets: %v", err)
		}
	}
}

// Plugins that are off by default, or on.
func ExampleWithPlugins() {
	_ = func(t *testing.T) { // func TestPolicies
		_ = gatehousetest.Start(t, gatehousetest.WithPlugins("AlwaysPullImages"),
			gatehousetest.WithoutPlugins("ServiceAccount"))
	}
}

// A server that is stopped and started again on its data.
func ExampleStartIn() {
	_ = func(t *testing.T) { // func TestRestart
		dir := t.TempDir()
		gatehousetest.StartIn(t, dir).Stop()
		_ = gatehousetest.StartIn(t, dir)
	}
}

// The policies of examples/policies do what their suites say.
func TestRunSuites(t *testing.T) {
	gatehousetest.RunSuites(t, "../examples/policies")
}
