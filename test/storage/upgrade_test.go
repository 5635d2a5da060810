// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/apiserver/backup"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// The release before, Kubernetes 1.36.3 with etcd 3.6, has written the data directory and the backup in
// testdata/v1.36: a namespace with a quota of three ConfigMaps and one ConfigMap besides the root
// certificate's, a custom resource, and a mutating policy, which that release stored in another version.
// A server opens the data of the release before, and serves, charges and stores as that one did.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(*testing.T, string){
		"directory": unpackDirectory,
		"backup": func(t *testing.T, dir string) {
			if err := backup.Restore(uncompressed(t, "backup.gz"), dir, func(int64, int64) {}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			fill(t, dir)
			server := gatehousetest.StartIn(t, dir)
			goesOn(t, server)
			server.Stop()
			// It reads its own writes after another start.
			c := servertest.Connect(gatehousetest.StartIn(t, dir))
			if used := usedBy(t, c); used != "3" {
				t.Errorf("after another start %s ConfigMaps are charged, not 3", used)
			}
		})
	}
}

// goesOn checks that a server has the objects, and that its writes are admitted by the policy and the quota.
func goesOn(t *testing.T, server *gatehousetest.Server) {
	t.Helper()
	c := servertest.Connect(server)
	maps := c.Client.CoreV1().ConfigMaps("shop")
	greeting, err := maps.Get(t.Context(), "greeting", metav1.GetOptions{})
	if err != nil || greeting.Data["text"] != "hello" {
		t.Fatalf("the ConfigMap is %v, %v", greeting, err)
	}
	shelves := dynamic.NewForConfigOrDie(server.Config).Resource(
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shelves"}).Namespace("shop")
	top, err := shelves.Get(t.Context(), "top", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if width, _, _ := unstructured.NestedInt64(top.Object, "spec", "width"); width != 80 {
		t.Errorf("the custom resource is %v", top)
	}
	if err := unstructured.SetNestedField(top.Object, int64(90), "spec", "width"); err != nil {
		t.Fatal(err)
	}
	if _, err := shelves.Update(t.Context(), top, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if used := usedBy(t, c); used != "2" {
		t.Errorf("%s ConfigMaps are charged, not 2", used)
	}
	third, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "third"}},
		metav1.CreateOptions{})
	if err != nil || third.Labels["by"] != "1.36" {
		t.Errorf("the third ConfigMap, to which the policy gives a label, is %v, %v", third, err)
	}
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fourth"}},
		metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: limit") {
		t.Errorf("the fourth ConfigMap: %v", err)
	}
	if used := usedBy(t, c); used != "3" {
		t.Errorf("%s ConfigMaps are charged, not 3", used)
	}
}

// usedBy returns how many ConfigMaps the quota has counted.
func usedBy(t *testing.T, c *servertest.Cluster) string {
	t.Helper()
	quota, err := c.Client.CoreV1().ResourceQuotas("shop").Get(t.Context(), "limit", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := quota.Status.Used["count/configmaps"]
	return used.String()
}

// uncompressed returns what a file of the release before contains.
func uncompressed(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "v1.36", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	reader, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// unpackDirectory makes the data directory.
func unpackDirectory(t *testing.T, dir string) {
	t.Helper()
	archive := tar.NewReader(uncompressed(t, "directory.tar.gz"))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(file, archive); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
