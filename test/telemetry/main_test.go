// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry_test asks a running server what it tells of what it decides: in traces, in the
// audit log, in the decision log and in metrics, and what the dashboards and alerts of deploy/ make
// of these.
package telemetry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

// The one server of most tests, its administrator's client, which passes on the trace that is in
// its context, and what the server tells.
var (
	cluster     *servertest.Cluster
	client      kubernetes.Interface
	spans       *servertest.TraceReceiver
	auditLog    string
	decisionLog string
)

// auditPolicy logs all writes as most people do, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection, get]
- level: None
`

// admissionConfig has all plugins run that count something. Nobody answers where InitialResources
// asks.
const admissionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: InitialResources
  configuration:
    apiVersion: gatehouse.dev/v1alpha1
    kind: InitialResourcesConfiguration
    address: http://127.0.0.1:1
- name: ValidatingAdmissionPolicy
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ValidatingAdmissionPolicyConfiguration
    staticManifestsDir: %s
`

func TestMain(m *testing.M) {
	needs.NotShort()
	servertest.SendTracesAtOnce()
	dir, err := os.MkdirTemp("", "telemetry-")
	if err != nil {
		suite.Fatal(err)
	}
	suite.Cleanup(func() { os.RemoveAll(dir) })
	spans = servertest.ReceiveTraces(&suite)
	auditLog, decisionLog = filepath.Join(dir, "audit.log"), filepath.Join(dir, "decisions.log")
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		suite.Fatal(err)
	}
	traces := spans.Config(&suite, dir, 0)
	configuration := filepath.Join(dir, "admission.yaml")
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		suite.Fatal(err)
	}
	if err := os.WriteFile(configuration, fmt.Appendf(nil, admissionConfig, manifests), 0o600); err != nil {
		suite.Fatal(err)
	}
	cluster = servertest.Start(&suite, gatehousetest.WithConfig(func(c *server.Config) {
		c.Admission.Enable = []string{"InitialResources"}
		c.Admission.ConfigFile = configuration
		c.API.Traces.ConfigFile = traces
		c.API.Audit.PolicyFile, c.API.Audit.LogOptions.Path = policy, auditLog
		c.Decisions.LogPath = decisionLog
	}))
	client = servertest.TracedClient(servertest.Quick(cluster.Config))
	suite.Main(m)
}

// namespace makes a namespace for the test.
func namespace(t *testing.T) string {
	t.Helper()
	name := cluster.Namespace(t, nil)
	t.Cleanup(func() { _ = client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return name
}

// pod is the least of a pod.
func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i"}}},
	}
}

// inNamespace selects a namespace.
func inNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}
