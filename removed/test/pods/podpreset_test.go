// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
	"gatehouse.dev/test/servertest"
)

func TestPodPreset(t *testing.T) {
	t.Parallel()
	c := clusterWith("PodPreset")
	namespace := c.Namespace(t, nil)
	pods := c.Client.CoreV1().Pods(namespace)
	presets := c.Dynamic.Resource(settingsv1alpha1.PodPresets).Namespace(namespace)
	preset, err := presets.Create(t.Context(), servertest.Parsed(t, `
apiVersion: settings.k8s.io/v1alpha1
kind: PodPreset
metadata: {name: preset}
spec:
  selector: {matchLabels: {app: web}}
  env:
  - {name: A, value: "1"}
  - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  envFrom: [{configMapRef: {name: m}}]
  volumes: [{name: v}, {name: s, secret: {secretName: s}}]
  volumeMounts: [{name: v, mountPath: /v}, {name: v, mountPath: /w, readOnly: true}]
`), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labelled := func(name string) *corev1.Pod {
		pod := servertest.Pod(name)
		pod.Labels = map[string]string{"app": "web"}
		pod.Spec.AutomountServiceAccountToken = new(bool) // no volume but the preset's
		return pod
	}
	// A dry run is the same for the plugin, and leaves nothing behind.
	servertest.Retry(t, "the preset to be known", func() error {
		pod, err := pods.Create(t.Context(), labelled("try"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(pod.Spec.Containers[0].Env) == 0 {
			err = errors.New("it gives a pod nothing")
		}
		return err
	})

	pod := labelled("web")
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i"}}
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range append(made.Spec.InitContainers, made.Spec.Containers...) {
		if len(container.Env) != 2 || container.Env[1].ValueFrom.FieldRef.APIVersion != "v1" ||
			len(container.EnvFrom) != 1 || len(container.VolumeMounts) != 2 {
			t.Errorf("container %s: %v", container.Name, container)
		}
	}
	if len(made.Spec.Volumes) != 2 || made.Spec.Volumes[0].EmptyDir == nil ||
		*made.Spec.Volumes[1].Secret.DefaultMode != 0o644 {
		t.Errorf("volumes %v", made.Spec.Volumes)
	}
	got := made.Annotations["podpreset.admission.kubernetes.io/podpreset-preset"]
	if got != preset.GetResourceVersion() {
		t.Errorf("annotations %v, the preset is at %s", made.Annotations, preset.GetResourceVersion())
	}

	// What has all of it already, with the defaults that the server sets, is in no conflict.
	same := labelled("same")
	same.Spec = *made.Spec.DeepCopy()
	if made, err := pods.Create(t.Context(), same, metav1.CreateOptions{}); err != nil ||
		made.Annotations["podpreset.admission.kubernetes.io/podpreset-preset"] == "" {
		t.Errorf("the same once more: %v, %v", made.Annotations, err)
	}

	other := labelled("other")
	other.Spec.Volumes = []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}},
		}}}
	made, err = pods.Create(t.Context(), other, metav1.CreateOptions{})
	if err != nil || len(made.Spec.Volumes) != 1 || len(made.Spec.Containers[0].Env) != 0 ||
		len(made.Annotations) != 0 {
		t.Errorf("with a volume of its own: %v, %v", made, err)
	}
	servertest.Eventually(t, "the event", func() bool {
		events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: fields.Set{"involvedObject.name": "other", "reason": "PodPresetConflict"}.String(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(events.Items) == 0 {
			return false
		}
		if got, want := events.Items[0].Message,
			"merging volumes for preset has a conflict on v: "; !strings.Contains(got, want) {
			t.Errorf("the event says %s", got)
		}
		return true
	})
}
