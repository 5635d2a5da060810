// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// A namespace that doesn't go away is said to wait for the finalizers in it, and for the webhook that refuses their
// removal. The objects in it were deleted by collection, and each is found by its name.
func TestNamespaceThatIsHeld(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	configMaps := c.Client.CoreV1().ConfigMaps(namespace)
	for _, name := range []string{"held", "gone"} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "held" {
			object.Finalizers, object.Labels = []string{"example.com/cleanup"}, map[string]string{"case": name}
		}
		if _, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kubectl.OK("", "delete", "namespace", namespace, "--wait=false")
	servertest.Eventually(t, "the namespace controller has deleted what it can", func() bool {
		_, err := configMaps.Get(t.Context(), "gone", metav1.GetOptions{})
		found, errNamespace := c.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err) && errNamespace == nil && len(found.Status.Conditions) > 0
	})
	says(t, c, []string{"configmap/gone", "-n", namespace}, "(not found)", "Admitted DELETE ")
	says(t, c, []string{"configmap/held", "-n", namespace}, "Being deleted since ", "the finalizer example.com/cleanup",
		"Admitted DELETE ")
	says(t, c, []string{"namespace/" + namespace}, "It is there until these are removed:", "NamespaceFinalizersRemaining: ")

	refusing := webhooktest.New(t, webhooktest.Deny(403, "not yet"))
	configurations := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Webhooks: []admissionregistrationv1.MutatingWebhook{
			mutating("held", namespace, refusing.ClientConfig("/"), rule("UPDATE", "", "configmaps"))},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	release := func(options metav1.PatchOptions) error {
		_, err := configMaps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), options)
		return err
	}
	servertest.Eventually(t, "the webhook refuses", func() bool {
		return release(metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}) != nil
	})
	if err := release(metav1.PatchOptions{}); err == nil {
		t.Fatal("the finalizer is removed")
	}
	says(t, c, []string{"namespace/" + namespace}, "In it, UPDATE of configmaps/held is refused:", "not yet")
	if err := configurations.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the finalizer is removed", func() bool {
		err := release(metav1.PatchOptions{})
		return err == nil || apierrors.IsNotFound(err)
	})
}

// What controllers are refused because a namespace ends is no last refusal, and the answer always says what is missing.
// A name without a type is answered with the objects of that name.
func TestSuggestions(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	kubectl.OK("", "create", "configmap", "greeting")
	fails(t, c, []string{"greeting", "-n", namespace}, 1, "for an object, say configmaps/greeting")
	fails(t, c, []string{"nonesuch", "-n", namespace}, 1, "for an object, say TYPE/NAME, as pod/nonesuch")
	kubectl.Fails("", []string{"create", "configmap", "UPPER"}, "Invalid value")
	says(t, c, []string{"--last-refused", "-n", namespace}, "configmaps/UPPER",
		"Refusals by authentication or authorization are not recorded.")
	kubectl.OK("", "delete", "namespace", namespace, "--wait=false")
	_, err := c.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "because it is being terminated") && !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap in a namespace that ends: %v", err)
	}
}
