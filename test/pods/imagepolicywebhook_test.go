// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/servertest"
)

func TestImagePolicyWebhook(t *testing.T) {
	backend := backends.StartImages(t, backends.AnswerImages(func(review *imagepolicyv1alpha1.ImageReview) {
		review.Status.Allowed = true
		for _, container := range review.Spec.Containers {
			if strings.Contains(container.Image, "bad") &&
				review.Spec.Annotations["example.image-policy.k8s.io/ticket"] == "" {
				review.Status = imagepolicyv1alpha1.ImageReviewStatus{Reason: container.Image + " is bad"}
			}
		}
	}))
	config := fmt.Sprintf("imagePolicy:\n  kubeConfigFile: %s\n  retryBackoff: 1\n  ", backend.Kubeconfig)
	c := servertest.Start(t, gatehousetest.WithPlugins("ImagePolicyWebhook"),
		servertest.Configured(t, map[string]string{"ImagePolicyWebhook": config}))
	namespace := c.Namespace(t, nil)
	pods, k := c.Client.CoreV1().Pods(namespace), c.Kubectl(t, namespace)
	denied := func(err error, name, image string) {
		t.Helper()
		if want := fmt.Sprintf(`pods "%s" is forbidden: image policy webhook backend denied one or more images: %s `+
			`is bad`, name, image); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}

	k.OK("", "run", "good", "--image=registry.example/good:1")
	k.Fails("", []string{"run", "bad", "--image=registry.example/bad:1"},
		`Error from server (Forbidden): pods "bad" is forbidden: image policy webhook backend denied one or more `+
			`images: registry.example/bad:1 is bad`)
	k.OK("", "run", "exception", "--image=registry.example/bad:1",
		"--annotations=example.image-policy.k8s.io/ticket=1234")

	// A running pod may get no other image, and no debug container.
	good, err := pods.Get(t.Context(), "good", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed := good.DeepCopy()
	changed.Spec.Containers[0].Image = "registry.example/bad:2"
	_, err = pods.Update(t.Context(), changed, metav1.UpdateOptions{})
	denied(err, "good", "registry.example/bad:2")
	debugged := good.DeepCopy()
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "registry.example/bad:3", ImagePullPolicy: corev1.PullAlways,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		},
	}}
	_, err = pods.UpdateEphemeralContainers(t.Context(), "good", debugged, metav1.UpdateOptions{})
	denied(err, "good", "registry.example/bad:3")
	debugged.Spec.EphemeralContainers[0].Image = "registry.example/good:3"
	if _, err = pods.UpdateEphemeralContainers(t.Context(), "good", debugged, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}

	// What has been answered isn't asked again, whoever asks.
	calls := len(backend.Calls())
	k.OK("", "label", "pod", "good", "a=b")
	k.OK("", "run", "good-too", "--image=registry.example/good:1")
	if again := len(backend.Calls()) - calls; again != 0 {
		t.Errorf("the backend was asked %d times again", again)
	}

	// Two servers with a backend that has gone: one whose door stays closed, one whose doesn't.
	backend.Close()
	k.Fails("", []string{"run", "other", "--image=registry.example/other:1"},
		`pods "other" is forbidden: error contacting webhook backend: Post "`+backend.URL+"/policy")
	open := servertest.Start(t, gatehousetest.WithPlugins("ImagePolicyWebhook"),
		servertest.Configured(t, map[string]string{"ImagePolicyWebhook": config + "defaultAllow: true"}))
	admitted, err := open.Client.CoreV1().Pods(open.Namespace(t, nil)).Create(t.Context(), servertest.Pod("other"),
		metav1.CreateOptions{})
	if err != nil || len(admitted.Annotations) > 0 {
		t.Errorf("got %v, %v", admitted, err)
	}
}
