// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

const (
	storageClass = `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "%s"}, ` +
		`"provisioner": "example.com/disk"}`
	claim = `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"generateName": "data-"}, "spec": {%s
		"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`
	isDefault = "storageclass.kubernetes.io/is-default-class"
)

// createClaim creates a claim that says of classes what is in its spec, and is the class it has
// then.
func createClaim(t *testing.T, k servertest.Kubectl, spec string) string {
	t.Helper()
	return k.OK(fmt.Sprintf(claim, spec), "create", "--filename=-", "--output=jsonpath={.spec.storageClassName}")
}

func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t)
	k := c.Kubectl(t, c.Namespace(t, nil))
	if got := createClaim(t, k, ""); got != "" {
		t.Errorf("with no classes, a claim has class %q", got)
	}
	for _, name := range []string{"disk", "flash"} {
		k.OK(fmt.Sprintf(storageClass, name), "create", "--filename=-")
	}
	if got := createClaim(t, k, ""); got != "" {
		t.Errorf("with no default class, a claim has class %q", got)
	}
	k.OK("", "annotate", "storageclass", "disk", isDefault+"=true")
	servertest.Eventually(t, "disk to be the default class", func() bool { return createClaim(t, k, "") == "disk" })
	for spec, want := range map[string]string{`"storageClassName": "flash",`: "flash", `"storageClassName": "",`: ""} {
		if got := createClaim(t, k, spec); got != want {
			t.Errorf("%s got class %q", spec, got)
		}
	}

	k.OK("", "annotate", "storageclass", "flash", "storageclass.beta.kubernetes.io/is-default-class=true")
	servertest.Eventually(t, "claims to be refused", func() bool {
		_, _, code := k.Run(fmt.Sprintf(claim, ""), "create", "--filename=-")
		return code != 0
	})
	k.Fails(fmt.Sprintf(claim, ""), []string{"create", "--filename=-"},
		`is forbidden: 2 default StorageClasses were found: disk, flash; set spec.storageClassName, or let only one `+
			`of them have the annotation`)
	if got := createClaim(t, k, `"storageClassName": "disk",`); got != "disk" {
		t.Errorf("a claim that names a class got %q", got)
	}
	// An update is none of the plugin's business.
	k.OK("", "label", "pvc", "--all", "updated=true")
}

func TestNewestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Configured(t, map[string]string{"DefaultStorageClass": `
apiVersion: gatehouse.dev/v1alpha1
kind: DefaultStorageClassConfiguration
multipleDefaults: Newest`}))
	k := c.Kubectl(t, c.Namespace(t, nil))
	for _, name := range []string{"a", "b"} {
		k.OK(fmt.Sprintf(storageClass, name), "create", "--filename=-")
		k.OK("", "annotate", "storageclass", name, isDefault+"=true")
	}
	list, err := c.Client.StorageV1().StorageClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := "b"
	if list.Items[0].CreationTimestamp.Equal(&list.Items[1].CreationTimestamp) {
		want = "a" // of the same second, the first by name
	}
	servertest.Eventually(t, "the newest to be the default class", func() bool { return createClaim(t, k, "") == want })
	k.OK("", "annotate", "storageclass", want, isDefault+"-")
	other := map[string]string{"a": "b", "b": "a"}[want]
	servertest.Eventually(t, "the other one to be it", func() bool { return createClaim(t, k, "") == other })
}
