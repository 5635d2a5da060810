package storage_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	storageClass = `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "%s"}, "provisioner": "example.com/disk"}`
	claim        = `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"generateName": "data-"}, "spec": {%s
		"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`
	isDefault = "storageclass.kubernetes.io/is-default-class"
)

// newClaim creates a claim that says of classes what is in its spec, and is the class it has then.
func (k kubectl) newClaim(spec string) string {
	k.t.Helper()
	return k.ok(fmt.Sprintf(claim, spec), "create", "--filename=-", "--output=jsonpath={.spec.storageClassName}")
}

func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	k := c.kubectl(t, c.newNamespace(t))
	if got := k.newClaim(""); got != "" {
		t.Errorf("with no classes, a claim has class %q", got)
	}
	for _, name := range []string{"disk", "flash"} {
		k.ok(fmt.Sprintf(storageClass, name), "create", "--filename=-")
	}
	if got := k.newClaim(""); got != "" {
		t.Errorf("with no default class, a claim has class %q", got)
	}
	k.ok("", "annotate", "storageclass", "disk", isDefault+"=true")
	eventually(t, "disk is the default class", func() bool { return k.newClaim("") == "disk" })
	for spec, want := range map[string]string{`"storageClassName": "flash",`: "flash", `"storageClassName": "",`: ""} {
		if got := k.newClaim(spec); got != want {
			t.Errorf("%s got class %q", spec, got)
		}
	}

	k.ok("", "annotate", "storageclass", "flash", "storageclass.beta.kubernetes.io/is-default-class=true")
	eventually(t, "claims are refused", func() bool {
		_, _, code := k.run(fmt.Sprintf(claim, ""), "create", "--filename=-")
		return code != 0
	})
	k.fails(fmt.Sprintf(claim, ""), []string{"create", "--filename=-"},
		`is forbidden: 2 default StorageClasses were found: disk, flash; set spec.storageClassName, or let only one of them have the annotation`)
	if got := k.newClaim(`"storageClassName": "disk",`); got != "disk" {
		t.Errorf("a claim that names a class got %q", got)
	}
	// An update is none of the plugin's business.
	k.ok("", "label", "pvc", "--all", "updated=true")
}

func TestNewestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	c := startCluster(t, configured(t, map[string]string{"DefaultStorageClass": `
apiVersion: gatehouse.dev/v1alpha1
kind: DefaultStorageClassConfiguration
multipleDefaults: Newest`}))
	k := c.kubectl(t, c.newNamespace(t))
	for _, name := range []string{"a", "b"} {
		k.ok(fmt.Sprintf(storageClass, name), "create", "--filename=-")
		k.ok("", "annotate", "storageclass", name, isDefault+"=true")
	}
	list, err := c.client.StorageV1().StorageClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := "b"
	if list.Items[0].CreationTimestamp.Equal(&list.Items[1].CreationTimestamp) {
		want = "a" // of the same second, the first by name
	}
	eventually(t, "the newest is the default class", func() bool { return k.newClaim("") == want })
	k.ok("", "annotate", "storageclass", want, isDefault+"-")
	other := map[string]string{"a": "b", "b": "a"}[want]
	eventually(t, "the other one is", func() bool { return k.newClaim("") == other })
}
