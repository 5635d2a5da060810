// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	installations "gatehouse.dev/remote/installation"
	"gatehouse.dev/test/servertest"
)

// The namespace that replicas made goes, unless something of others is in it, whatever its kind, or may be in it.
func TestRemoveNamespace(t *testing.T) {
	client := cluster().Client
	objects := metadata.NewForConfigOrDie(cluster().Config)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	create := metav1.CreateOptions{}
	for name, test := range map[string]struct {
		put  func(namespace string) error
		left []string
	}{
		"empty": {put: func(string) error { return nil }},
		"what each namespace has": {put: func(namespace string) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: meta("kube-root-ca.crt")}, create)
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
			if err != nil {
				return err
			}
			_, err = client.EventsV1().Events(namespace).Create(t.Context(), &eventsv1.Event{ObjectMeta: meta("e"),
				Reason: "Tested", Type: corev1.EventTypeNormal, Action: "Test", ReportingController: "example.com/test",
				ReportingInstance: "test", EventTime: metav1.NowMicro(),
				Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p", APIVersion: "v1"}}, create)
			return err
		}},
		"a network policy": {put: func(namespace string) error {
			_, err := client.NetworkingV1().NetworkPolicies(namespace).Create(t.Context(),
				&networkingv1.NetworkPolicy{ObjectMeta: meta("others")}, create)
			return err
		}, left: []string{`networkpolicies.networking.k8s.io "others"`}},
		"a role and config maps": {put: func(namespace string) error {
			for _, name := range []string{"a", "b", "c"} {
				if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta(name)},
					create); err != nil {
					return err
				}
			}
			_, err := client.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta("r")}, create)
			return err
		}, left: []string{`configmaps "a" and 2 more`, `roles.rbac.authorization.k8s.io "r"`}},
		"a Lease of the installation's name, of others": {put: func(namespace string) error {
			_, err := client.CoordinationV1().Leases(namespace).Create(t.Context(),
				&coordinationv1.Lease{ObjectMeta: meta("gatehouse")}, create)
			return err
		}, left: []string{`leases.coordination.k8s.io "gatehouse"`}},
	} {
		t.Run(name, func(t *testing.T) {
			i := installations.Installation{Name: "gatehouse", Namespace: "removed-" + rand.String(8)}
			if err := i.MakeNamespace(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			if err := test.put(i.Namespace); err != nil {
				t.Fatal(err)
			}
			removed, left, err := i.RemoveNamespace(t.Context(), client, objects)
			if err != nil || removed != (test.left == nil) || strings.Join(left, "; ") != strings.Join(test.left, "; ") {
				t.Errorf("removed: %t, left: %q, %v; want left: %q", removed, left, err, test.left)
			}
			stored, err := client.CoreV1().Namespaces().Get(t.Context(), i.Namespace, metav1.GetOptions{})
			if gone := apierrors.IsNotFound(err) || err == nil && stored.DeletionTimestamp != nil; gone != removed {
				t.Errorf("the namespace is gone: %t, %v", gone, err)
			}
		})
	}
}

// A namespace of others stays, and so does one in which something can't be listed.
func TestNamespacesThatStay(t *testing.T) {
	client := cluster().Client
	objects := metadata.NewForConfigOrDie(cluster().Config)
	others := installations.Installation{Name: "gatehouse", Namespace: cluster().Namespace(t, nil)}
	if removed, left, err := others.RemoveNamespace(t.Context(), client, objects); removed || left != nil || err != nil {
		t.Errorf("a namespace of others: %t, %q, %v", removed, left, err)
	}
	none := installations.Installation{Name: "gatehouse", Namespace: "none-of-this-name"}
	if removed, left, err := none.RemoveNamespace(t.Context(), client, objects); removed || left != nil || err != nil {
		t.Errorf("no namespace: %t, %q, %v", removed, left, err)
	}

	own := installations.Installation{Name: "gatehouse", Namespace: "removed-" + rand.String(8)}
	if err := own.MakeNamespace(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "configmaps"}, Verbs: []string{"*"}}
	role, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "removes-namespaces-"}, Rules: []rbacv1.PolicyRule{rule}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := role.Name // who has no rights from another run
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	as := cluster().As(user, "system:authenticated")
	remover, removersObjects := kubernetes.NewForConfigOrDie(as), metadata.NewForConfigOrDie(as)
	// The authorizer learns of the binding from a watch.
	servertest.Retry(t, "the remover's rights", func() error {
		_, err := remover.CoreV1().Namespaces().Get(t.Context(), own.Namespace, metav1.GetOptions{})
		return err
	})
	removed, left, err := own.RemoveNamespace(t.Context(), remover, removersObjects)
	if removed || err != nil || !strings.Contains(strings.Join(left, "; "), "secrets can't be listed: ") {
		t.Errorf("without the right to list: %t, %q, %v", removed, left, err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), own.Namespace, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
