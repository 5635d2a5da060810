// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package extendedresourcetoleration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// container requests one of each resource.
func container(resources ...corev1.ResourceName) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, name := range resources {
		c.Resources.Requests[name] = resource.MustParse("1")
	}
	return c
}

func tolerating(keys ...string) []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range keys {
		all = append(all, corev1.Toleration{Key: key, Operator: "Exists", Effect: "NoSchedule"})
	}
	return all
}

func pod(tolerations []corev1.Toleration, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       corev1.PodSpec{Tolerations: tolerations, Containers: containers},
	}
}

func withInit(p *corev1.Pod, containers ...corev1.Container) *corev1.Pod {
	p.Spec.InitContainers = containers
	return p
}

const (
	gpu     = "example.com/gpu"
	fpga    = "example.com/fpga"
	unknown = "kubernetes.io/not-one"
)

// Upstream: plugin/pkg/admission/extendedresourcetoleration, TestAdmit.
func TestTolerations(t *testing.T) {
	seconds := int64(60)
	withValue := []corev1.Toleration{{Key: gpu, Operator: "Equal", Value: "true", Effect: "NoSchedule"}}
	withSeconds := []corev1.Toleration{{Key: gpu, Operator: "Exists", Effect: "NoSchedule",
		TolerationSeconds: &seconds}}
	everything := []corev1.Toleration{{Operator: "Exists"}}
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		given *corev1.Pod
		want  []corev1.Toleration
	}{
		"no containers": {pod(nil), nil},
		"no resources":  {pod(nil, corev1.Container{}), nil},
		"Kubernetes' own": {pod(nil,
			container("cpu", "memory", "hugepages-2Mi", "ephemeral-storage", unknown, "x.kubernetes.io/y")), nil},
		"no domain":         {pod(nil, container("gpu")), nil},
		"a quota's name":    {pod(nil, container("requests."+gpu)), nil},
		"no qualified name": {pod(nil, container("example.com/a/b", "/gpu", "example.com/")), nil},
		"too long for a quota": {pod(nil,
			container(corev1.ResourceName(strings.Repeat("a", 240)+".example/gpu"))), nil},
		"one":                        {pod(nil, container("cpu", gpu)), tolerating(gpu)},
		"two, in the order of names": {pod(nil, container(gpu, fpga)), tolerating(fpga, gpu)},
		"the same in two containers": {pod(nil, container(gpu), container(gpu)), tolerating(gpu)},
		"one each in two containers": {pod(nil, container(gpu), container(fpga)), tolerating(fpga, gpu)},
		"of an init container":       {withInit(pod(nil, container("cpu")), container(gpu)), tolerating(gpu)},
		"of both":                    {withInit(pod(nil, container(fpga)), container(gpu)), tolerating(fpga, gpu)},
		"others are kept":            {pod(tolerating("foo"), container(gpu)), tolerating("foo", gpu)},
		"there already":              {pod(tolerating(gpu, "foo"), container(gpu)), tolerating(gpu, "foo")},
		"there with a value": {pod(withValue, container(gpu)),
			append(withValue[:1:1], tolerating(gpu)...)},
		"there for all taints": {pod(everything, container(gpu)),
			append(everything[:1:1], tolerating(gpu)...)},
		"there with seconds": {pod(withSeconds, container(gpu)), tolerating(gpu)},
		"there twice, with seconds": {pod(append(withSeconds[:1:1], withSeconds...), container(gpu)),
			tolerating(gpu, gpu)},
	} {
		t.Run(name, func(t *testing.T) {
			stored := pod(nil)
			for _, request := range []plugintest.Request{plugintest.Create(test.given),
				plugintest.Update(test.given, stored)} {
				got := subject.Admit(t, request).Admitted(t).Object.(*corev1.Pod)
				if !apiequality.Semantic.DeepEqual(got.Spec.Tolerations, test.want) {
					t.Errorf("%s: got  %v\nwant %v", request.Operation, got.Spec.Tolerations, test.want)
				}
			}
		})
	}
}

// A request of 0 asks for no such node, but upstream doesn't tell.
func TestZeroIsARequest(t *testing.T) {
	given := pod(nil,
		corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: resource.MustParse(
			"0")}}})
	got := plugintest.New(t, Descriptor, "").Admit(t, plugintest.Create(given)).Admitted(t).Object.(*corev1.Pod)
	if !apiequality.Semantic.DeepEqual(got.Spec.Tolerations, tolerating(gpu)) {
		t.Errorf("got %v", got.Spec.Tolerations)
	}
}

// Upstream: TestHandles.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	given := pod(nil, container(gpu))
	for name, request := range map[string]plugintest.Request{
		"status":               plugintest.Update(given, given).On("pods", "status"),
		"resize":               plugintest.Update(given, given).On("pods", "resize"),
		"ephemeral containers": plugintest.Update(given, given).On("pods", "ephemeralcontainers"),
		"binding":              plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		"pod templates": plugintest.Create(
			&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: given.Spec}}),
		"delete": plugintest.Delete(given),
		"exec":   plugintest.Connect(given, "exec", &corev1.PodExecOptions{}),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).Refused(t, 400,
		"ExtendedResourceToleration: the object of a request for pods is a *v1.ConfigMap")
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "ExtendedResourceToleration takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}

// Whatever a resource is called, it doesn't get a toleration that makes the pod invalid.
func FuzzResourceName(f *testing.F) {
	for _, name := range []string{"cpu", gpu, unknown, "requests." + gpu, "/", "a//b", "\x00/\xff",
		strings.Repeat("a", 300) + "/b"} {
		f.Add(name)
	}
	subject := plugintest.New(f, Descriptor, "")
	f.Fuzz(func(t *testing.T, name string) {
		given := pod(nil, container(corev1.ResourceName(name)))
		got := subject.Admit(t, plugintest.Create(given)).Admitted(t).Object.(*corev1.Pod)
		for _, toleration := range got.Spec.Tolerations {
			if wrong := validation.IsQualifiedName(toleration.Key); toleration.Key != name || len(wrong) > 0 {
				t.Errorf("%q: %q: %q", name, toleration.Key, wrong)
			}
		}
	})
}
