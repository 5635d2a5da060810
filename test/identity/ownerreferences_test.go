// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// Users with the rights that roles give them, and the garbage collector of the server.
func TestOwnerReferences(t *testing.T) {
	c := guarded()
	namespace := c.Namespace(t, nil)
	alice := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}
	maps := c.withCertificate(t, "alice").CoreV1().ConfigMaps(namespace)
	owner := allowed[*corev1.Secret](t, "the owner")(c.Client.CoreV1().Secrets(namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{}))
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "owner", UID: owner.UID}
	create := func(name string, refs ...metav1.OwnerReference) error {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name,
			OwnerReferences: refs}}, metav1.CreateOptions{})
		return err
	}
	disown := func() error {
		_, err := maps.Patch(t.Context(), "owned", types.MergePatchType,
			[]byte(`{"metadata": {"ownerReferences": null}}`), metav1.PatchOptions{})
		return err
	}
	blocking := ref
	blocking.BlockOwnerDeletion = new(true)

	c.Grant(t, namespace, alice, rbacv1.PolicyRule{Verbs: []string{"create", "patch"}, APIGroups: []string{""},
		Resources: []string{"configmaps"}})
	servertest.Retry(t, "the right to create", func() error { return create("owned", ref) })
	err := create("blocking", blocking)
	c.refused(t, "a blocking reference", err, "")
	says(t, err,
		`configmaps "blocking" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a `+
			`resource you can't set finalizers on: not allowed to update secrets/finalizers "owner"`)
	err = disown()
	c.refused(t, "removing a reference", err, "")
	says(t, err,
		`configmaps "owned" is forbidden: cannot set an ownerRef on a resource you can't delete: not allowed to `+
			`delete configmaps "owned"`)
	if _, err := maps.Patch(t.Context(), "owned", types.MergePatchType, []byte(`{"data": {"a": "b"}}`),
		metav1.PatchOptions{}); err != nil {
		t.Errorf("a change of something else: %v", err)
	}
	// A kind that nobody knows, and then is a custom resource's.
	thing := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "t", UID: "u",
		BlockOwnerDeletion: new(true)}
	err = create("unknown", thing)
	says(t, err,
		`configmaps "unknown" is forbidden: cannot set blockOwnerDeletion in this case because cannot find `+
			`RESTMapping for APIVersion example.com/v1 Kind Thing: no matches for kind "Thing" in version `+
			`"example.com/v1"`)
	definition := servertest.Parsed(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the new kind to be known", func() bool {
		return strings.Contains(create("unknown", thing).Error(),
			`not allowed to update things.example.com/finalizers "t"`)
	})

	c.Grant(t, namespace, alice, rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{""},
		Resources: []string{"secrets/finalizers"}, ResourceNames: []string{"owner"}})
	servertest.Retry(t, "the right to block", func() error { return create("blocking", blocking) })
	c.Grant(t, namespace, alice,
		rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	servertest.Retry(t, "the right to delete", disown)
}
