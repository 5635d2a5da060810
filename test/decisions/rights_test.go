// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/servertest"
)

// A right in the namespace default shows what was done there, and nothing of objects without a
// namespace, whose decisions are there, too. A right in all namespaces shows both.
func TestRightsToClusterScopedObjects(t *testing.T) {
	c := shared()
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gatehouse:decisions-viewer"}
	user := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}
	}
	if _, err := c.Client.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-default-"}, RoleRef: role, Subjects: user("of-default"),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-all-"}, RoleRef: role, Subjects: user("of-all"),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	without := c.Namespace(t, nil)
	within := "in-default-" + without
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: within}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"of-default": {within}, "of-all": {within, without}} {
		viewer := client(t, c.As(name))
		servertest.Retry(t, "the right of "+name, func() error {
			_, err := list(t, viewer, "default", "")
			return err
		})
		var seen []string
		for _, object := range []string{within, without} {
			found, err := list(t, viewer, "default", "request.operation=CREATE,request.name="+object)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range found {
				seen = append(seen, nestedString(d.Object, "request", "name"))
				if _, err := viewer.Resource(v1alpha1.Decisions).Namespace("default").Get(t.Context(), d.GetName(),
					metav1.GetOptions{}); err != nil {
					t.Errorf("%s gets one that was listed: %v", name, err)
				}
			}
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%s sees %v, want %v", name, seen, want)
		}
	}
	// Nor by its name, nor by a watch.
	all, err := list(t, c.Dynamic, "default", "request.name="+without)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d decisions: %v", len(all), err)
	}
	viewer := client(t, c.As("of-default")).Resource(v1alpha1.Decisions).Namespace("default")
	if _, err := viewer.Get(t.Context(), all[0].GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("of-default gets a decision about a namespace: %v", err)
	}
	if first := firstOf(t, viewer); nestedString(first, "request", "namespace") == "" {
		t.Errorf("of-default is told of %v", first)
	}
}

// firstOf returns the first decision that a watch tells of.
func firstOf(t *testing.T, decisions dynamic.ResourceInterface) map[string]any {
	t.Helper()
	watching, err := decisions.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	return (<-watching.ResultChan()).Object.(interface {
		UnstructuredContent() map[string]any
	}).UnstructuredContent()
}

func nestedString(object map[string]any, fields ...string) string {
	for _, f := range fields[:len(fields)-1] {
		object, _ = object[f].(map[string]any)
	}
	text, _ := object[fields[len(fields)-1]].(string)
	return text
}

// A decision says who made a request as somebody else.
func TestImpersonation(t *testing.T) {
	c := shared()
	as := rest.CopyConfig(c.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"system:masters"}}
	bob, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	namespace := c.Namespace(t, nil)
	for name, client := range map[string]kubernetes.Interface{"by-bob": bob, "by-admin": c.Client} {
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	admin := decisionsAbout(t, c, namespace, "by-admin")[0].Request
	d := decisionsAbout(t, c, namespace, "by-bob")[0].Request
	if d.User.Username != "bob" || d.ImpersonatedBy == nil || d.ImpersonatedBy.Username != admin.User.Username ||
		admin.ImpersonatedBy != nil {
		t.Errorf("got %v by %v, and of the administrator %v by %v", d.User, d.ImpersonatedBy, admin.User,
			admin.ImpersonatedBy)
	}
}

// A client that asks for pages gets them, and all that there is by them.
func TestPages(t *testing.T) {
	c := shared()
	namespace := refused(t, c)
	for range 3 {
		_, err := c.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "page-"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := list(t, c.Dynamic, namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	var paged []string
	options := metav1.ListOptions{Limit: 2}
	for {
		page, err := c.Dynamic.Resource(v1alpha1.Decisions).Namespace(namespace).List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > 2 {
			t.Errorf("a page has %d", len(page.Items))
		}
		for _, d := range page.Items {
			paged = append(paged, d.GetName())
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	if len(paged) < len(all) || len(paged) < 4 {
		t.Errorf("there are %d on pages, and %d at once", len(paged), len(all))
	}
}
