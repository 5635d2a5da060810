// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func withDefaults() *corev1.LimitRange {
	return limitRange("limits",
		item(corev1.LimitTypeContainer, "default cpu=75m memory=10Mi, defaultRequest cpu=50m memory=5Mi"))
}

// Source: upstream's TestMergePodResourceRequirements, TestPodLimitFuncApplyDefault,
// TestDefaultContainerResourceRequirements.
func TestDefaults(t *testing.T) {
	gpu := limitRange("limits", item(corev1.LimitTypeContainer, "default nvidia.com/gpu=1"))
	for name, test := range map[string]struct {
		ranges     []*corev1.LimitRange
		containers []corev1.Container
		init       []corev1.Container
		want       []corev1.ResourceRequirements // of the containers, then of the init containers
		annotation string
	}{
		"nothing is said": {
			containers: []corev1.Container{container("foo-0", "", "")},
			want:       []corev1.ResourceRequirements{resources("cpu=50m memory=5Mi", "cpu=75m memory=10Mi")},
			annotation: "LimitRanger plugin set: cpu, memory request for container foo-0; cpu, memory limit for " +
				"container foo-0",
		},
		"something is said": {
			containers: []corev1.Container{container("foo-0", "memory=512Mi", "")},
			want:       []corev1.ResourceRequirements{resources("cpu=50m memory=512Mi", "cpu=75m memory=10Mi")},
			annotation: "LimitRanger plugin set: cpu request for container foo-0; cpu, memory limit for container " +
				"foo-0",
		},
		"everything is said": {
			containers: []corev1.Container{container("foo-0", "cpu=100m memory=512Mi", "cpu=200m memory=1G")},
			init:       []corev1.Container{container("init", "cpu=200m memory=1G", "cpu=400m memory=2G")},
			want: []corev1.ResourceRequirements{resources("cpu=100m memory=512Mi", "cpu=200m memory=1G"),
				resources("cpu=200m memory=1G", "cpu=400m memory=2G")},
		},
		"zero is something": {
			containers: []corev1.Container{container("foo-0", "cpu=0 memory=0", "cpu=0 memory=0")},
			want:       []corev1.ResourceRequirements{resources("cpu=0 memory=0", "cpu=0 memory=0")},
		},
		"init containers and sidecars": {
			containers: []corev1.Container{container("foo-0", "cpu=1 memory=1Gi", "cpu=1")},
			init:       []corev1.Container{container("init", "", ""), sidecar("proxy", "cpu=1", "cpu=1 memory=1Gi")},
			want: []corev1.ResourceRequirements{
				resources("cpu=1 memory=1Gi", "cpu=1 memory=10Mi"),
				resources("cpu=50m memory=5Mi", "cpu=75m memory=10Mi"),
				resources("cpu=1 memory=5Mi", "cpu=1 memory=1Gi"),
			},
			annotation: "LimitRanger plugin set: memory limit for container foo-0; cpu, memory request for init " +
				"container init; " +
				"cpu, memory limit for init container init; memory request for init container proxy",
		},
		"any resource": {
			ranges:     []*corev1.LimitRange{gpu},
			containers: []corev1.Container{container("a", "cpu=1", ""), container("b", "", "nvidia.com/gpu=2")},
			want: []corev1.ResourceRequirements{resources("cpu=1", "nvidia.com/gpu=1"),
				resources("", "nvidia.com/gpu=2")},
			annotation: "LimitRanger plugin set: nvidia.com/gpu limit for container a",
		},
		// Upstream takes either and overwrites the annotation.
		"several LimitRanges: the first by name, all of it in the annotation": {
			ranges: []*corev1.LimitRange{
				limitRange("b", item(corev1.LimitTypeContainer, "default cpu=2 memory=2Gi")),
				limitRange("a", item(corev1.LimitTypeContainer, "default cpu=1, defaultRequest cpu=1")),
				limitRange("c", item(corev1.LimitTypePod, "max cpu=9")),
			},
			containers: []corev1.Container{container("foo-0", "", "")},
			want:       []corev1.ResourceRequirements{resources("cpu=1", "cpu=1 memory=2Gi")},
			annotation: "LimitRanger plugin set: cpu request for container foo-0; cpu, memory limit for container " +
				"foo-0",
		},
		"only containers have defaults": {
			ranges: []*corev1.LimitRange{limitRange("limits",
				item(corev1.LimitTypePod, "default cpu=1, defaultRequest cpu=1"))},
			containers: []corev1.Container{container("foo-0", "", "")},
			want:       []corev1.ResourceRequirements{{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.ranges == nil {
				test.ranges = []*corev1.LimitRange{withDefaults()}
			}
			given := pod(test.containers...)
			given.Spec.InitContainers = test.init
			got := admitted(t, newPlugin(t, test.ranges...), plugintest.Create(given))
			for i, c := range append(got.Spec.Containers, got.Spec.InitContainers...) {
				if !apiequality.Semantic.DeepEqual(c.Resources, test.want[i]) {
					t.Errorf("container %s has %v, want %v", c.Name, c.Resources, test.want[i])
				}
			}
			if value, ok := got.Annotations[annotation]; value != test.annotation || ok != (test.annotation != "") {
				t.Errorf("annotation %q, want %q", value, test.annotation)
			}
		})
	}
}

func TestDefaultsOfAResize(t *testing.T) {
	bare := pod(container("c", "cpu=1", ""))
	subject := newPlugin(t, withDefaults())
	if got := admitted(t, subject, plugintest.Update(bare, bare).On("pods",
		"resize")); !got.Spec.Containers[0].Resources.Limits.Memory().Equal(list("memory=10Mi")["memory"]) {
		t.Errorf("resized to %v", got.Spec.Containers[0].Resources)
	}
	if got := admitted(t, subject, plugintest.Update(bare, bare)); got.Spec.Containers[0].Resources.Limits != nil {
		t.Errorf("updated to %v", got.Spec.Containers[0].Resources)
	}
}

// The plugin's own LimitRange must not be what the pod then shares.
func TestDefaultsAreCopies(t *testing.T) {
	subject := newPlugin(t, withDefaults())
	first := admitted(t, subject, plugintest.Create(pod(container("c", "", ""))))
	cpu := first.Spec.Containers[0].Resources.Limits["cpu"]
	cpu.Add(cpu)
	first.Spec.Containers[0].Resources.Limits["cpu"] = cpu
	second := admitted(t, subject, plugintest.Create(pod(container("c", "", ""))))
	if got := second.Spec.Containers[0].Resources.Limits.Cpu().String(); got != "75m" {
		t.Errorf("the default has become %s", got)
	}
}

// A webhook has added a container, and the chain runs the plugin once more.
func TestAnnotationOfASecondRun(t *testing.T) {
	const (
		first  = "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
		second = "cpu, memory request for container injected; cpu, memory limit for container injected"
	)
	for name, test := range map[string]struct {
		before string
		again  bool
		want   string
	}{
		"a second run keeps the first one's":     {first, true, first + "; " + second},
		"a first run replaces what a client set": {first, false, "LimitRanger plugin set: " + second},
		"so does a second run":                   {"mine", true, "LimitRanger plugin set: " + second},
	} {
		t.Run(name, func(t *testing.T) {
			p := annotated(pod(container("c", "cpu=1 memory=1Mi", "cpu=1 memory=1Mi"), container("injected", "", "")),
				map[string]string{annotation: test.before})
			a := admission.NewAttributesRecord(p, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
			if test.again {
				a.GetReinvocationContext().SetIsReinvoke()
			}
			subject := newPlugin(t, withDefaults())
			if err := subject.Built.(plugin.Mutator).Admit(context.Background(), a, nil); err != nil {
				t.Fatal(err)
			}
			if got := p.Annotations[annotation]; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
