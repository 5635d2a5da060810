// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podresizevalidator

import (
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

func node(name, os string, allocatable corev1.ResourceList) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: allocatable}}
	if os != "" {
		n.Labels = map[string]string{"kubernetes.io/os": os}
	}
	return n
}

// pod is a pod on a node, of a generation, that requests as much.
func pod(node string, generation int64, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: generation},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c",
			Resources: corev1.ResourceRequirements{Requests: amounts(cpu, memory)}}}},
	}
}

func with(p *corev1.Pod, change func(*corev1.PodSpec)) *corev1.Pod {
	change(&p.Spec)
	return p
}

func resize(p *corev1.Pod) plugintest.Request {
	return plugintest.Update(p, pod("linux", 1, "100m", "100Mi")).On("pods", "resize")
}

// Upstream: TestValidate and TestValidateNodeAllocatable in
// plugin/pkg/admission/podresize/admission_test.go.
func TestResize(t *testing.T) {
	const (
		forbidden = `pods "p" is forbidden: `
		lacking   = forbidden + `node didn't have enough allocatable resources: `
		cpu       = `cpu, requested: 2001, allocatable: 2000`
		memory    = `memory, requested: 2147483648, allocatable: 1073741824`
	)
	subject := plugintest.New(t, Descriptor, "", node("linux", "linux", amounts("2", "1Gi")),
		node("silent", "", amounts("2", "1Gi")), node("windows", "windows", amounts("2", "1Gi")),
		node("bare", "linux", nil))
	for name, test := range map[string]struct {
		pod         *corev1.Pod
		want, cause string
	}{
		"less":                 {pod("linux", 2, "1m", "1"), "", ""},
		"all there is":         {pod("linux", 2, "2", "1Gi"), "", ""},
		"too much cpu":         {pod("linux", 2, "2001m", "1Gi"), lacking + cpu, "NodeCapacity"},
		"too much memory":      {pod("linux", 2, "2", "2Gi"), lacking + memory, "NodeCapacity"},
		"too much of both":     {pod("linux", 2, "2001m", "2Gi"), lacking + cpu + "; " + memory, "NodeCapacity"},
		"of a silent node":     {pod("silent", 2, "1", "1Gi"), "", ""},
		"of a silent one, cpu": {pod("silent", 2, "2001m", "1Gi"), lacking + cpu, "NodeCapacity"},
		"of a node that says nothing": {pod("bare", 2, "1m", "0"), lacking + "cpu, requested: 1, allocatable: 0",
			"NodeCapacity"},
		"on windows": {pod("windows", 2, "1m", "1"),
			forbidden + `pod resize is only supported on linux nodes, node "windows" is "windows"`,
			"UnsupportedPlatform"},
		"on no node":                  {pod("", 2, "100", "1"), "", ""},
		"on a node that isn't there":  {pod("gone", 2, "1", "1"), forbidden + `node "gone" not found`, ""},
		"nothing changes in the spec": {pod("gone", 1, "100", "1"), "", ""},
		"with overhead, which counts": {with(pod("linux", 2, "2", "1"), func(s *corev1.PodSpec) {
			s.Overhead = amounts("1m", "1")
		}), lacking + cpu, "NodeCapacity"},
		"with resources of the pod's": {with(pod("linux", 2, "3", "2Gi"), func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}
		}), "", ""},
		"with more of the pod's": {with(pod("linux", 2, "1", "1"), func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: amounts("2001m", "1")}
		}), lacking + cpu, "NodeCapacity"},
		"with other resources": {with(pod("linux", 2, "1", "1"), func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("9")
		}), "", ""},
		"with a large init container": {with(pod("linux", 2, "1", "1"), func(s *corev1.PodSpec) {
			s.InitContainers = pod("", 0, "2001m", "1").Spec.Containers
		}), lacking + cpu, "NodeCapacity"},
		"with containers that sum to it": {with(pod("linux", 2, "1", "1"), func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, pod("", 0, "1001m", "1").Spec.Containers...)
		}), lacking + cpu, "NodeCapacity"},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Validate(t, resize(test.pod))
			if test.want == "" {
				result.Admitted(t)
				return
			}
			result.Refused(t, 403, test.want)
			cause := ""
			if status, ok := errors.AsType[*apierrors.StatusError](result.Err); ok {
				for _, c := range status.Status().Details.Causes {
					cause += string(c.Type)
				}
			}
			if cause != test.cause {
				t.Errorf("the cause is %q, want %q", cause, test.cause)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	given, old := pod("linux", 2, "100", "1"), pod("linux", 1, "1", "1")
	for name, request := range map[string]plugintest.Request{
		"create": plugintest.Create(given),
		"update": plugintest.Update(given, old),
		"status": plugintest.Update(given, old).On("pods", "status"),
		"delete": plugintest.Delete(given),
		"others": plugintest.Update(given, old).On("others", "resize"),
	} {
		if subject.Validate(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	const noPod = "PodResizeValidator: the object of a request for pods is a *v1.Secret"
	wrong := resize(given)
	wrong.Object = &corev1.Secret{}
	subject.Validate(t, wrong).Refused(t, 400, noPod)
	wrong.Object, wrong.OldObject = given, &corev1.Secret{}
	subject.Validate(t, wrong).Refused(t, 400, noPod)
}

func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil, &plugin.Env{Informers: informers.NewSharedInformerFactory(fake.NewClientset(),
			0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Validate(t, resize(pod("", 2, "1", "1"))).Admitted(t)
		subject.Validate(t, resize(pod("linux", 2, "1", "1"))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
	})
}
