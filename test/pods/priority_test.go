// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// priorityOf is what a pod has of its class.
func priorityOf(pod *corev1.Pod) string {
	if pod.Spec.Priority == nil || pod.Spec.PreemptionPolicy == nil {
		return fmt.Sprintf("%s %v %v", pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d %s", pod.Spec.PriorityClassName, *pod.Spec.Priority,
		*pod.Spec.PreemptionPolicy))
}

// The first requests of a new server, once it says that it is ready.
func TestSystemPriorityClassesAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t)
	for name, want := range map[string]string{
		"system-node-critical":    "system-node-critical 2000001000 PreemptLowerPriority",
		"system-cluster-critical": "system-cluster-critical 2000000000 PreemptLowerPriority",
		"":                        "0 PreemptLowerPriority",
	} {
		pod := servertest.Pod("p-" + name)
		pod.Name = strings.TrimSuffix(pod.Name, "-")
		pod.Spec.PriorityClassName = name
		created, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := priorityOf(created); got != want {
			t.Errorf("class %q: got %s, want %s", name, got, want)
		}
	}
	want := "system-cluster-critical 2000000000\nsystem-node-critical 2000001000\n"
	if got := c.Kubectl(t, "default").OK("", "get", "priorityclass",
		`--output=jsonpath={range .items[*]}{.metadata.name} {.value}{"\n"}{end}`); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPriority(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t) // its own, since a default class is everybody's
	k := c.Kubectl(t, c.Namespace(t, nil))
	pods := c.Client.CoreV1().Pods(k.Namespace)

	t.Run("a new class is used at once", func(t *testing.T) {
		for i := range 50 {
			class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("new-%d", i)},
				Value: int32(i)}
			if _, err := c.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pod := servertest.Pod(class.Name)
			pod.Spec.PriorityClassName = class.Name
			created, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := priorityOf(created), fmt.Sprintf("%s %d PreemptLowerPriority", class.Name, i); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})

	t.Run("no such class", func(t *testing.T) {
		for _, name := range []string{"missing", "../missing", strings.Repeat("x", 100_000)} {
			pod := servertest.Pod("web")
			pod.Spec.PriorityClassName = name
			_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
			if want := `pods "web" is forbidden: no PriorityClass with name ` + name +
				` was found`; !apierrors.IsForbidden(err) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})

	t.Run("another number", func(t *testing.T) {
		k.Fails("", []string{"run", "web", "--image=nginx", `--overrides={"spec": {"priority": 7}}`},
			`pods "web" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority `+
				`admission controller computed 0 from the given PriorityClass name`)
	})

	// What ServiceAccount would add to it can't be taken away again; so it says it, or does
	// without.
	t.Run("a manifest that is sent again", func(t *testing.T) {
		const manifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "again"%s},
			"spec": {"serviceAccountName": "default", "automountServiceAccountToken": false, "priorityClassName": "system-node-critical", "containers": [{"name": "main", "image": "nginx"}]}}`
		k.OK(fmt.Sprintf(manifest, ""), "create", "--filename=-")
		k.OK(fmt.Sprintf(manifest, `, "labels": {"a": "b"}`), "replace", "--filename=-")
		if got, want := k.OK("", "get", "pod", "again", "--output=jsonpath={.metadata.labels.a} {.spec.priority}"),
			"b 2000001000"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})

	t.Run("one default class", func(t *testing.T) {
		k.OK("", "create", "priorityclass", "low", "--value=-10", "--global-default", "--preemption-policy=Never")
		// The same server admits both, and the second one whatever its cache shows.
		const second = "is already marked as default. Only one default can exist"
		k.Fails("", []string{"create", "priorityclass", "lower", "--value=-20", "--global-default"},
			`priorityclasses.scheduling.k8s.io "lower" is forbidden: PriorityClass low `+second)
		k.Fails("", []string{"patch", "priorityclass", "system-node-critical", "--patch", `{"globalDefault": true}`},
			"PriorityClass low "+second)
		k.OK("", "patch", "priorityclass", "low", "--patch", `{"description": "for what can wait"}`)
		k.OK("", "run", "by-default", "--image=nginx")
		if got, want := k.OK("", "get", "pod", "by-default",
			"--output=jsonpath={.spec.priorityClassName} {.spec.priority} {.spec.preemptionPolicy}"),
			"low -10 Never"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		k.OK("", "delete", "priorityclass", "low")
	})

	// What is stored is as the plugin made it, and other updates leave it so.
	t.Run("an update", func(t *testing.T) {
		patched, err := pods.Patch(t.Context(), "new-7", types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"a": "b"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := priorityOf(patched), "new-7 7 PreemptLowerPriority"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
