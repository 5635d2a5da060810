// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
)

// An audit log without a policy is kube-apiserver's: the file is made, nobody else may read it, and
// no event is in it.
func TestAuditLogWithoutPolicy(t *testing.T) {
	log := filepath.Join(t.TempDir(), "logs", "audit.log")
	cluster := gatehousetest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.API.Audit.LogOptions.Path = log }))
	_, err := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(log)
	if err != nil || info.Size() != 0 || info.Mode() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
}
