// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// exampleCluster is a server as the plugin's folder of examples has it, whose README must show the
// files as they are.
func exampleCluster(t *testing.T, plugin string) *servertest.Cluster {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("../../examples", strings.ToLower(plugin)))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{strings.ToLower(plugin) + ".yaml", "namespace.yaml"} {
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "```yaml\n"+string(content)+"```\n") {
			t.Errorf("README.md shows another %s", file)
		}
	}
	return servertest.Start(t, gatehousetest.WithPlugins(plugin),
		gatehousetest.WithConfig(func(c *server.Config) { c.Admission.ConfigFile = filepath.Join(folder, "admission.yaml") }))
}

const nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

func TestPodNodeSelector(t *testing.T) {
	t.Parallel()
	c := exampleCluster(t, "PodNodeSelector")
	k := c.Kubectl(t, "lab")
	k.OK("", "apply", "--filename=../../examples/podnodeselector/namespace.yaml")
	pods := c.Client.CoreV1().Pods("lab")

	t.Run("the example", func(t *testing.T) {
		k.OK("", "apply", "--filename=../../examples/podnodeselector/pod.yaml")
		if got, want := k.OK("", "get", "pod", "fast", "--output=jsonpath={.spec.nodeSelector}"),
			`{"disk":"ssd","env":"test"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		k.Fails("", []string{"apply", "--filename=../../examples/podnodeselector/pod-elsewhere.yaml"},
			`(Forbidden)`,
			`pods "elsewhere" is forbidden: pod node label selector conflicts with its namespace node label `+
				`selector`)
	})

	// As in Kubernetes, only what is created is looked at.
	t.Run("a pod at a gate", func(t *testing.T) {
		pod := servertest.Pod("gated")
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		patched, err := pods.Patch(t.Context(), "gated", types.MergePatchType,
			[]byte(`{"spec": {"nodeSelector": {"zone": "b"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"env": "test", "zone": "b"}; !maps.Equal(patched.Spec.NodeSelector, want) {
			t.Errorf("got %v, want %v", patched.Spec.NodeSelector, want)
		}
	})

	t.Run("an annotation that Kubernetes' documentation has named", func(t *testing.T) {
		other := c.Namespace(t, map[string]string{"scheduler.kubernetes.io/node-selector": "env=staging"})
		created, err := c.Client.CoreV1().Pods(other).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
		if err != nil || created.Spec.NodeSelector["env"] == "staging" {
			t.Errorf("got %v, %v", created.Spec.NodeSelector, err)
		}
	})

	t.Run("a namespace that can't be read", func(t *testing.T) {
		broken := c.Namespace(t, map[string]string{nodeSelectorAnnotation: "env in (test)"})
		_, err := c.Client.CoreV1().Pods(broken).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
		want := `pods "p" is forbidden: the node selector of namespace ` + broken +
			` can't be parsed, correct or remove the annotation: ` +
			`metadata.annotations[` + nodeSelectorAnnotation +
			`]: Invalid value: "env in (test)": invalid selector: [env in (test)]`
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})

	t.Run("a dry run", func(t *testing.T) {
		created, err := pods.Create(t.Context(), servertest.Pod("dry"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"env": "test"}; !maps.Equal(created.Spec.NodeSelector, want) {
			t.Errorf("got %v, want %v", created.Spec.NodeSelector, want)
		}
	})
}
