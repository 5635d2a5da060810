// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gatehouse.dev/plugin/podspec"
)

func ExampleAll() {
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Image: "busybox"}},
		Containers:     []corev1.Container{{Image: "nginx"}},
	}
	for position, container := range podspec.All(spec) {
		fmt.Println(position.Path(), container.Image)
	}
	// Output:
	// spec.initContainers[0] busybox
	// spec.containers[0] nginx
}

func ExamplePosition_In() {
	spec := &corev1.PodSpec{Containers: []corev1.Container{{Image: "nginx"}}}
	fmt.Println(podspec.Position{List: podspec.Containers, Index: 0}.In(spec).Image)
	// Output: nginx
}

func ExamplePod() {
	pod, err := podspec.Pod("NoLatest", &corev1.Pod{})
	fmt.Println(pod != nil, err)
	_, err = podspec.Pod("NoLatest", &corev1.Binding{})
	fmt.Println(err)
	// Output:
	// true <nil>
	// NoLatest: the object of a request for pods is a *v1.Binding
}

func ExampleSays() {
	resources := &corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	fmt.Println(podspec.Says(resources, corev1.ResourceMemory), podspec.Says(resources, corev1.ResourceCPU))
	// Output: true false
}
