// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/servertest"
)

func TestInitialResources(t *testing.T) {
	// In another namespace, as long as ten days ago.
	address := backends.StartPrometheus(t, backends.Container{
		Namespace: "elsewhere", Pod: "main-0", Name: "main", Image: "registry.example/main:1",
		From: 10 * 24 * time.Hour, To: 10*24*time.Hour - 4*time.Hour, CPU: []float64{0.25},
		Memory: []float64{100 << 20},
	})
	clusterThat := func(apply string) *servertest.Cluster {
		return servertest.Start(t, gatehousetest.WithPlugins("InitialResources"),
			servertest.Configured(t, map[string]string{
				"InitialResources": "apiVersion: gatehouse.dev/v1alpha1\nkind: " +
					"InitialResourcesConfiguration\ntimeout: " +
					"30s\naddress: " + address + "\napply: " + apply,
			}))
	}
	const annotation = "kubernetes.io/initial-resources"
	create := func(c *servertest.Cluster, namespace string, pod *corev1.Pod) *corev1.Pod {
		t.Helper()
		created, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}

	annotating := clusterThat("Annotate")
	created := create(annotating, annotating.Namespace(t, nil), servertest.Pod("web"))
	if got := created.Annotations[annotation]; got != "Initial Resources plugin set: cpu=250m, memory=100Mi request "+
		"for container main" || len(created.Spec.Containers[0].Resources.Requests) > 0 {
		t.Errorf("annotated %q, requests %v", got, created.Spec.Containers[0].Resources.Requests)
	}

	// LimitRanger's defaults are for what couldn't be estimated, and its limits hold for what
	// could.
	requesting := clusterThat("Request")
	namespace := requesting.Namespace(t, nil)
	if _, err := requesting.Client.CoreV1().LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer,
			DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"),
				corev1.ResourceMemory: resource.MustParse("1Mi")},
		}, {
			Type: corev1.LimitTypePod,
			Min:  corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	given := servertest.Pod("web")
	given.Spec.Containers = append(given.Spec.Containers,
		corev1.Container{Name: "unknown", Image: "registry.example/unknown:1"})
	created = create(requesting, namespace, given)
	for i, want := range []string{"250m 100Mi", "1m 1Mi"} {
		requests := created.Spec.Containers[i].Resources.Requests
		if got := requests.Cpu().String() + " " + requests.Memory().String(); got != want {
			t.Errorf("the container %s requests %s, want %s", created.Spec.Containers[i].Name, got, want)
		}
	}
	k := requesting.Kubectl(t, namespace)
	k.Fails("", []string{"run", "unknown", "--image=registry.example/unknown:1"},
		"minimum cpu usage per Pod is 100m, but request is 1m")
	k.OK("", "run", "known", "--image=registry.example/main:2")

	metrics, err := requesting.Client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range []string{"estimated", "not_enough_data"} {
		if line := `gatehouse_initial_resources_estimates_total{resource="cpu",result="` + result +
			`"} `; !strings.Contains(string(metrics), line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
}
