// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

func containers(names ...string) []corev1.Container {
	var all []corev1.Container
	for _, name := range names {
		all = append(all, corev1.Container{Name: name})
	}
	return all
}

func ephemeral(names ...string) []corev1.EphemeralContainer {
	var all []corev1.EphemeralContainer
	for _, name := range names {
		all = append(all,
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
	}
	return all
}

// The order is that of k8s.io/kubernetes/pkg/api/v1/pod.ContainerIter.
func TestAll(t *testing.T) {
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"none": {corev1.PodSpec{}, nil},
		"of every list": {
			corev1.PodSpec{Containers: containers("a", "b"), InitContainers: containers("i", "j"),
				EphemeralContainers: ephemeral("e", "f")},
			[]string{
				"spec.initContainers[0] i", "spec.initContainers[1] j", "spec.containers[0] a", "spec.containers[1] b",
				"spec.ephemeralContainers[0] e", "spec.ephemeralContainers[1] f",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for position, container := range All(&test.spec) {
				got = append(got, position.Path().String()+" "+container.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			for n := range test.want {
				visited := 0
				for range All(&test.spec) {
					if visited++; visited == n+1 {
						break
					}
				}
				if visited != n+1 {
					t.Errorf("ended after %d, it goes on to %d", n+1, visited)
				}
			}
		})
	}
}

func TestContainersAreThePods(t *testing.T) {
	spec := corev1.PodSpec{Containers: containers("a"), InitContainers: containers("i"),
		EphemeralContainers: ephemeral("e")}
	for _, container := range All(&spec) {
		container.Image = "set"
	}
	if spec.Containers[0].Image != "set" || spec.InitContainers[0].Image != "set" ||
		spec.EphemeralContainers[0].Image != "set" {
		t.Errorf("got %v", spec)
	}
}

func TestNoAllocations(t *testing.T) {
	spec := corev1.PodSpec{Containers: containers("a", "b"), InitContainers: containers("i"),
		EphemeralContainers: ephemeral("e")}
	named := 0
	if n := testing.AllocsPerRun(100, func() {
		for position, container := range All(&spec) {
			if container.Name == "" {
				t.Error(position.Path())
			}
			named++
		}
	}); n != 0 {
		t.Errorf("%v allocations for %d containers", n, named)
	}
}

func TestPod(t *testing.T) {
	pod := &corev1.Pod{}
	if got, err := Pod("Example", pod); got != pod || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for want, object := range map[string]runtime.Object{
		"Example: the object of a request for pods is a *v1.Node": &corev1.Node{},
		"Example: the object of a request for pods is a <nil>":    nil,
	} {
		got, err := Pod("Example", object)
		if got != nil || !apierrors.IsBadRequest(err) || err.Error() != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
}

func TestSays(t *testing.T) {
	zero := corev1.ResourceList{corev1.ResourceCPU: {}}
	for name, test := range map[string]struct {
		resources *corev1.ResourceRequirements
		want      bool
	}{
		"nil":       {nil, false},
		"empty":     {&corev1.ResourceRequirements{}, false},
		"a request": {&corev1.ResourceRequirements{Requests: zero}, true},
		"a limit":   {&corev1.ResourceRequirements{Limits: zero}, true},
		"another resource": {&corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: {}}},
			false},
	} {
		if got := Says(test.resources, corev1.ResourceCPU); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
