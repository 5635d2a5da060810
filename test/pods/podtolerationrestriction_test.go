// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

const (
	defaultTolerations   = "scheduler.alpha.kubernetes.io/defaultTolerations"
	tolerationsWhitelist = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

func TestPodTolerationRestriction(t *testing.T) {
	t.Parallel()
	c := exampleCluster(t, "PodTolerationRestriction")

	t.Run("the example", func(t *testing.T) {
		k := c.Kubectl(t, "training")
		k.OK("", "apply", "--filename=../../examples/podtolerationrestriction/namespace.yaml")
		k.OK("", "apply", "--filename=../../examples/podtolerationrestriction/pod.yaml")
		const want = "node.kubernetes.io/not-ready:NoExecute Exists 300,node.kubernetes.io/unreachable:NoExecute " +
			"Exists 300," +
			"gpu:NoSchedule Exists ,node.kubernetes.io/memory-pressure:NoSchedule Exists ,"
		if got := k.OK("", "get", "pod", "train", tolerations); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		for namespace, scope := range map[string]string{"training": "namespace", "default": "cluster"} {
			c.Kubectl(t, namespace).Fails("", []string{"apply",
				"--filename=../../examples/podtolerationrestriction/pod-everywhere.yaml"}, "(Forbidden)",
				`pods "everywhere" is forbidden: pod tolerations (possibly merged with namespace default `+
					`tolerations) conflict with its `+scope+" whitelist: spec.tolerations[0]")
		}
	})

	t.Run("a conflict", func(t *testing.T) {
		namespace := c.Namespace(t, map[string]string{
			defaultTolerations: `[{"key": "team", "value": "a", "effect": "NoSchedule"}]`, tolerationsWhitelist: "[]",
		})
		pod := servertest.Pod("p")
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "team", Value: "b", Effect: "NoSchedule"}}
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		want := `pods "p" is forbidden: namespace tolerations and pod tolerations conflict: spec.tolerations[0]`
		if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		// The seconds that DefaultTolerationSeconds gives are no conflict with those of a
		// namespace.
		namespace = c.Namespace(t, map[string]string{
			defaultTolerations: `[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": ` +
				`"NoExecute", "tolerationSeconds": 600}]`,
			tolerationsWhitelist: "",
		})
		k := c.Kubectl(t, namespace)
		k.OK("", "run", "web", "--image=nginx")
		want = "node.kubernetes.io/unreachable:NoExecute Exists 300,node.kubernetes.io/not-ready:NoExecute Exists 600,"
		if got := k.OK("", "get", "pod", "web", tolerations); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	// The API lets no toleration be taken away. What the plugins add is there again before it
	// looks. (Not so what ServiceAccount would add: the manifest says its account, and does without
	// a token.)
	t.Run("a manifest that is sent again", func(t *testing.T) {
		const manifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "again"%s},
			"spec": {"serviceAccountName": "default", "automountServiceAccountToken": false,
				"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]}}`
		k := c.Kubectl(t, c.Namespace(t, nil))
		k.OK(fmt.Sprintf(manifest, ""), "create", "--filename=-")
		k.OK(fmt.Sprintf(manifest, `, "labels": {"a": "b"}`), "replace", "--filename=-")
		if got := k.OK("", "get", "pod", "again", tolerations); !strings.HasSuffix(got,
			"node.kubernetes.io/memory-pressure:NoSchedule Exists ,") {
			t.Errorf("got %s", got)
		}
	})

	t.Run("a namespace that can't be read", func(t *testing.T) {
		for _, annotation := range []string{defaultTolerations, tolerationsWhitelist} {
			broken := c.Namespace(t, map[string]string{annotation: `[{"operator": "Exists", "keys": ["a"]}]`})
			_, err := c.Client.CoreV1().Pods(broken).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
			want := `pods "p" is forbidden: the tolerations of namespace ` + broken +
				` can't be parsed, correct or remove the annotation: ` +
				`metadata.annotations[` + annotation + `]: Invalid value: `
			if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})

	// As in Kubernetes, what is stored is held to the whitelist with its next update.
	t.Run("a stricter whitelist", func(t *testing.T) {
		k := c.Kubectl(t, c.Namespace(t, map[string]string{tolerationsWhitelist: "[]"}))
		k.OK("", "run", "web", "--image=nginx",
			`--overrides={"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}`)
		k.OK("", "annotate", "namespace", k.Namespace, "--overwrite",
			tolerationsWhitelist+`=[{"key": "y", "operator": "Exists"}]`)
		// The plugin looks for the namespace in a cache, which shows a write a moment later.
		servertest.Eventually(t, "the whitelist to be known", func() bool {
			_, _, code := k.Run("", "label", "pod", "web", "a=b", "--dry-run=server")
			return code != 0
		})
		k.Fails("", []string{"label", "pod", "web", "a=b"}, "(Forbidden)", "conflict with its namespace whitelist")
		k.OK("", "delete", "pod", "web", "--now")
	})
}

// What Kubernetes does today, and the fields that its configuration has.
func TestPodTolerationRestrictionMerges(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, gatehousetest.WithPlugins("PodTolerationRestriction"),
		servertest.Configured(t, map[string]string{"PodTolerationRestriction": `
apiVersion: gatehouse.dev/v1alpha1
kind: PodTolerationRestrictionConfiguration
default: [{key: team, operator: Equal, value: a, effect: NoSchedule}]
whitelist: [{key: team, operator: Exists}, {operator: Exists, effect: NoExecute}]
conflicts: Merge
`}))
	pod := servertest.Pod("p")
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: "Equal", Value: "b", Effect: "NoSchedule"}}
	created, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{}
	for _, toleration := range created.Spec.Tolerations {
		values[toleration.Value] = true
	}
	if !values["a"] || !values["b"] {
		t.Errorf("got %v", created.Spec.Tolerations)
	}
	pod.Name, pod.Spec.Tolerations[0].Key = "q", "other"
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod,
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}
