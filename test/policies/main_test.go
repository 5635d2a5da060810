// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies_test has admission policies evaluated by a running server, through client-go.
// Each test keeps to a namespace of its own, and its bindings to that namespace.
package policies_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

// The one server of all tests that don't need one of their own, and its clients.
var (
	cluster       *servertest.Cluster
	client        kubernetes.Interface
	dynamicClient dynamic.Interface
)

func TestMain(m *testing.M) {
	needs.NotShort()
	cluster = servertest.Start(&suite, servertest.RuntimeConfig("apps/v1beta1=true",
		"admissionregistration.k8s.io/v1beta1=true", "admissionregistration.k8s.io/v1alpha1=true"), gatehousetest.WithConfig(audited))
	client, dynamicClient = cluster.Client, cluster.Dynamic
	suite.Main(m)
}

// namespace makes a namespace for the test.
func namespace(t *testing.T) string {
	t.Helper()
	name := cluster.Namespace(t, nil)
	t.Cleanup(func() { _ = client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return name
}
