// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
)

// What is stored encrypted (--encryption-provider-config) is never the same twice, and counts all
// the same.
func TestEncrypted(t *testing.T) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	config := `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [pods, resourcequotas]
  providers:
  - aesgcm: {keys: [{name: k, secret: ` + base64.StdEncoding.EncodeToString(key) + `}]}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := gatehousetest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.API.Etcd.EncryptionProviderConfigFilepath = file }))
	client := clientOf(srv)
	const namespace = "secret"
	namespaceWith(t, client, namespace, 0)
	two := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "two"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("2")}}}
	if _,
		err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), two, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(name string) error {
		_, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod(name), metav1.CreateOptions{})
		return err
	}
	used := func(want string) {
		t.Helper()
		q, err := client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Status.Used["pods"]; got.String() != want {
			t.Errorf("used is %s, want %s", got.String(), want)
		}
	}
	for _, name := range []string{"a", "b"} {
		if err := create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("c"); !exceeded(err) {
		t.Errorf("the third pod: %v", err)
	}
	used("2")
	now := int64(0)
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "a",
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	used("1")
	if err := create("c"); err != nil {
		t.Error(err)
	}
	used("2")
	stored, err := srv.Etcd.Client().KV.Get(t.Context(), "/registry/resourcequotas/"+namespace+"/two")
	if err != nil || len(stored.Kvs) != 1 || !bytes.HasPrefix(stored.Kvs[0].Value, []byte("k8s:enc:aesgcm:v1:k:")) {
		t.Errorf("the quota is stored as %q, %v", stored.Kvs, err)
	}
}
