// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitpodhardantiaffinitytopology

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func terms(topologyKeys ...string) []corev1.PodAffinityTerm {
	var all []corev1.PodAffinityTerm
	for _, key := range topologyKeys {
		all = append(all, corev1.PodAffinityTerm{
			TopologyKey:   key,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		})
	}
	return all
}

func pod(affinity *corev1.Affinity) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Affinity: affinity}}
}

func required(topologyKeys ...string) *corev1.Pod {
	return pod(&corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(
			topologyKeys...)},
	})
}

const (
	host = "kubernetes.io/hostname"
	zone = "topology.kubernetes.io/zone"
	rack = "example.com/rack"

	refusal = `pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has `
)

// Upstream: plugin/pkg/admission/antiaffinity, TestInterPodAffinityAdmission.
func TestCreate(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		given *corev1.Pod
		want  string // what is refused; empty where nothing is
	}{
		"no affinity":            {pod(nil), ""},
		"empty affinity":         {pod(&corev1.Affinity{}), ""},
		"empty anti-affinity":    {pod(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}), ""},
		"the node":               {required(host), ""},
		"the node, twice":        {required(host, host), ""},
		"a zone":                 {required(zone), "TopologyKey " + zone},
		"a zone, after the node": {required(host, zone, rack), "TopologyKey " + zone},
		"a label of one's own":   {required(rack), "TopologyKey " + rack},
		"no key":                 {required(""), "TopologyKey "},
		"preferred": {pod(&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1,
				PodAffinityTerm: terms(zone)[0]}},
		}}), ""},
		"affinity": {pod(
			&corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(
				zone)}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Validate(t, plugintest.Create(test.given))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, refusal+test.want+" but only key kubernetes.io/hostname is allowed")
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	subject.Validate(t, plugintest.Update(required(host), pod(nil))).Admitted(t)
	subject.Validate(t, plugintest.Update(required(zone), required(zone))).Admitted(t)
	for _, stored := range []*corev1.Pod{pod(nil), required(host), required(rack), required(zone, rack)} {
		subject.Validate(t, plugintest.Update(required(zone), stored)).Refused(t, 403,
			refusal+"TopologyKey "+zone+" but only key kubernetes.io/hostname is allowed")
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for _, request := range []plugintest.Request{
		plugintest.Update(required(zone), pod(nil)).On("pods", "status"),
		plugintest.Update(required(zone), pod(nil)).On("pods", "ephemeralcontainers"),
		plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		plugintest.Create(&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: required(zone).Spec}}),
		plugintest.Delete(required(zone)),
		plugintest.Connect(required(zone), "exec", &corev1.PodExecOptions{}),
	} {
		subject.Validate(t, request).Admitted(t)
	}
	const bad = "LimitPodHardAntiAffinityTopology: the object of a request for pods is a *v1.ConfigMap"
	subject.Validate(t, plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).Refused(t, 400, bad)
	subject.Validate(t, plugintest.Update(required(zone), &corev1.ConfigMap{})).Refused(t, 400, bad)
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "LimitPodHardAntiAffinityTopology takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
