// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
	"gatehouse.dev/test/servertest"
)

// grant lets a user do something with leases in a namespace.
func (c *cluster) grant(t testing.TB, namespace, user string, verbs ...string) {
	t.Helper()
	c.Grant(t, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs})
	servertest.Eventually(t, "the role to apply", func() bool {
		_, err := at(c.as(user), leases, namespace).Get(t.Context(), "none", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func forbidden(t testing.TB, err error, want string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A namespace goes with what is hidden in it, whatever that waits for.
func TestNamespaceDeletion(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one)
	held := newObject(leases, "held")
	held.SetFinalizers([]string{"example.com/hold"})
	c.createHidden(t, leases, ns, held)
	c.createHidden(t, leases, ns, newObject(leases, "plain"))
	if err := c.Client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the namespace to be gone", func() bool {
		_, err := c.Client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	c.gone(t, leases, ns, "held")
	c.gone(t, leases, ns, "plain")
}

// Garbage collection sees hidden objects: they go with their owner, wait for no one in the
// foreground, and are left without owner where that is asked for.
func TestGarbageCollection(t *testing.T) {
	c := startCluster(t)
	c.configure(t, leases, one)
	for policy, stays := range map[metav1.DeletionPropagation]bool{
		metav1.DeletePropagationBackground: false,
		metav1.DeletePropagationForeground: false,
		metav1.DeletePropagationOrphan:     true,
	} {
		t.Run(string(policy), func(t *testing.T) {
			ns := c.Namespace(t, nil)
			owner, err := at(c.Dynamic, secrets, ns).Create(t.Context(), newObject(secrets, "owner"),
				metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			block := true
			dependent := newObject(leases, "dependent")
			dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "owner",
				UID: owner.GetUID(), BlockOwnerDeletion: &block}})
			c.createHidden(t, leases, ns, dependent)
			// If the owner goes before the collector has seen the dependent, the dependent is collected whatever the
			// policy is. So wait until the collector has seen it: it collects a later one that has no owner.
			stray := newObject(leases, "stray")
			stray.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "nobody",
				UID: "0"}})
			c.createHidden(t, leases, ns, stray)
			c.gone(t, leases, ns, "stray")
			if err := at(c.Dynamic, secrets, ns).Delete(t.Context(), "owner",
				metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			c.gone(t, secrets, ns, "owner")
			if !stays {
				c.gone(t, leases, ns, "dependent")
				return
			}
			servertest.Eventually(t, "the dependent to have no owner", func() bool {
				got, err := at(c.full, leases, ns).Get(t.Context(), "dependent", metav1.GetOptions{})
				return err == nil && len(got.GetOwnerReferences()) == 0
			})
		})
	}
}

// A quota counts what is hidden, as it is stored, and the controller that counts again finds the
// same.
func TestQuota(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one)
	const count = "count/leases.coordination.k8s.io"
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{count: resource.MustParse("1")}},
	}
	if _, err := c.Client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.createHidden(t, leases, ns, newObject(leases, "a"))
	_, err := at(c.Dynamic, leases, ns).Create(t.Context(), newObject(leases, "b"), metav1.CreateOptions{})
	forbidden(t, err, `leases.coordination.k8s.io "b" is forbidden: exceeded quota: q`)
	used := func() int64 {
		q, err := c.Client.CoreV1().ResourceQuotas(ns).Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := q.Status.Used[count]
		return n.Value()
	}
	if n := used(); n != 1 {
		t.Errorf("the quota counts %d", n)
	}
	// Nobody waits for it: it fails, and is given back.
	c.fail(t, leases, ns, "a", "no")
	servertest.Eventually(t, "the quota to be free", func() bool { return used() == 0 })
}

// A deletion of all deletes what is hidden, too, and a namespace may wait itself.
func TestCollectionsAndNamespaces(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one)
	c.createHidden(t, leases, ns, newObject(leases, "a"))
	if err := at(c.Dynamic, leases, ns).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	c.gone(t, leases, ns, "a")

	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	created := make(chan outcome, 1)
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "hidden"}}}
	if _, err := c.Dynamic.Resource(admissionregistrationv1alpha1.InitializerConfigurations).Create(t.Context(), servertest.Parsed(t, `
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: InitializerConfiguration
metadata: {name: namespaces}
initializers: [{name: one.example.com, rules: [{apiGroups: [""], apiVersions: ["*"], resources: [namespaces]}]}]
`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the configuration to apply", func() bool {
		got, err := c.Dynamic.Resource(namespaces).Create(t.Context(), namespace,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(got.GetAnnotations()) > 0
	})
	go func() {
		object, err := c.Dynamic.Resource(namespaces).Create(t.Context(), namespace, metav1.CreateOptions{})
		created <- outcome{object, err}
	}()
	servertest.Eventually(t, "the namespace to be stored", func() bool {
		_, err := c.full.Resource(namespaces).Get(t.Context(), "hidden", metav1.GetOptions{})
		return err == nil
	})
	if _, err := at(c.Dynamic, leases, "hidden").Create(t.Context(), newObject(leases, "a"),
		metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("creating something in a hidden namespace: %v", err)
	}
	if err := c.Dynamic.Resource(namespaces).Delete(t.Context(), "hidden", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if got := received(t, created); !apierrors.IsInternalError(got.err) {
		t.Errorf("the creator gets %v, %v", got.object, got.err)
	}
	servertest.Eventually(t, "the namespace to be gone", func() bool {
		_, err := c.full.Resource(namespaces).Get(t.Context(), "hidden", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
