// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
)

// Cluster is a running server and its administrator's clients, which may ask as often as they like.
type Cluster struct {
	*gatehousetest.Server
	Client  *kubernetes.Clientset
	Dynamic *dynamic.DynamicClient
}

// Start runs a server that ends with the test.
func Start(t testing.TB, options ...gatehousetest.Option) *Cluster {
	t.Helper()
	return Connect(gatehousetest.Start(t, options...))
}

// Connect has clients of a server that runs already.
func Connect(running *gatehousetest.Server) *Cluster {
	config := Quick(running.Config)
	return &Cluster{running, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)}
}

// Quick is the same configuration for a client that may ask as often as it likes.
func Quick(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// As is the configuration of a client for a user whom the administrator impersonates.
func (c *Cluster) As(user string, groups ...string) *rest.Config {
	config := Quick(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// Namespace makes a namespace for one test, with annotations that may be nil.
func (c *Cluster) Namespace(t testing.TB, annotations map[string]string) string {
	t.Helper()
	created, err := c.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Annotations: annotations}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// Grant gives somebody a right in a namespace. The server's authorizer knows it a moment later.
func (c *Cluster) Grant(t testing.TB, namespace string, to rbacv1.Subject, right rbacv1.PolicyRule) {
	t.Helper()
	role, err := c.Client.RbacV1().Roles(namespace).Create(t.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: []rbacv1.PolicyRule{right}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{to},
	}
	if _, err := c.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
