// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// list is a list of resources, from "cpu=1 memory=2Gi".
func list(resources string) corev1.ResourceList {
	parsed := corev1.ResourceList{}
	for _, one := range strings.Fields(resources) {
		name, quantity, _ := strings.Cut(one, "=")
		parsed[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return parsed
}

// resources is requests and limits; what isn't there is empty.
func resources(requests, limits string) corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	if requests != "" {
		r.Requests = list(requests)
	}
	if limits != "" {
		r.Limits = list(limits)
	}
	return r
}

func container(name, requests, limits string) corev1.Container {
	return corev1.Container{Name: name, Image: "i", Resources: resources(requests, limits)}
}

// sidecar is a restartable init container.
func sidecar(name, requests, limits string) corev1.Container {
	c, always := container(name, requests, limits), corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func pod(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Containers: containers}}
}

func claim(storage string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list(
			storage)}},
	}
}

// item is an item of a LimitRange, from "max cpu=1 memory=1Gi, min cpu=10m". The API server would
// default it: here it is as written.
func item(of corev1.LimitType, limits string) corev1.LimitRangeItem {
	item := corev1.LimitRangeItem{Type: of}
	lists := map[string]*corev1.ResourceList{
		"min": &item.Min, "max": &item.Max, "ratio": &item.MaxLimitRequestRatio,
		"default": &item.Default, "defaultRequest": &item.DefaultRequest,
	}
	for part := range strings.SplitSeq(limits, ",") {
		which, resources, _ := strings.Cut(strings.TrimSpace(part), " ")
		*lists[which] = list(resources)
	}
	return item
}

func limitRange(name string, items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.LimitRangeSpec{Limits: items}}
}

func newPlugin(t plugintest.TB, ranges ...*corev1.LimitRange) *plugintest.Plugin {
	t.Helper()
	var objects []runtime.Object
	for _, r := range ranges {
		objects = append(objects, r)
	}
	return gated(t, true, objects...)
}

// gated is the plugin with the feature gate PodLevelResources on or off.
func gated(t plugintest.TB, on bool, objects ...runtime.Object) *plugintest.Plugin {
	t.Helper()
	cluster := plugintest.NewCluster(t, objects...)
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		podLevelResources: {Default: on, PreRelease: featuregate.Beta}}); err != nil {
		t.Fatalf("feature gates: %v", err)
	}
	cluster.Env.Features = gates
	return cluster.Build(t, Descriptor, "")
}

// admitted is the pod after the mutating phase.
func admitted(t *testing.T, subject *plugintest.Plugin, request plugintest.Request) *corev1.Pod {
	t.Helper()
	return subject.Admit(t, request).Admitted(t).Object.(*corev1.Pod)
}

// wrong is the message with which the pod p of these tests is refused.
func wrong(violations ...string) string {
	if len(violations) == 1 {
		return `pods "p" is forbidden: ` + violations[0]
	}
	return `pods "p" is forbidden: [` + strings.Join(violations, ", ") + `]`
}

func annotated(p *corev1.Pod, annotations map[string]string) *corev1.Pod {
	p = p.DeepCopy()
	p.Annotations = maps.Clone(annotations)
	return p
}
