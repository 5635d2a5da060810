// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcedefaults

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// resources is requests and limits, each like "cpu=1 memory=2Gi"; what isn't there is nil.
func resources(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		var parsed corev1.ResourceList
		for _, one := range strings.Fields(text) {
			if parsed == nil {
				parsed = corev1.ResourceList{}
			}
			name, quantity, _ := strings.Cut(one, "=")
			parsed[corev1.ResourceName(name)] = resource.MustParse(quantity)
		}
		return parsed
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func both(text string) corev1.ResourceRequirements { return resources(text, text) }

// pod has a container c0, c1, … for each of containers.
func pod(containers ...corev1.ResourceRequirements) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for i, r := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c" + string(rune('0'+i)), Resources: r})
	}
	return p
}

func withInit(p *corev1.Pod, init ...corev1.ResourceRequirements) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	for i, r := range init {
		p.Spec.InitContainers = append(p.Spec.InitContainers,
			corev1.Container{Name: "i" + string(rune('0'+i)), Resources: r})
	}
	p.Spec.InitContainers[len(init)-1].RestartPolicy = &always
	return p
}

func withPodLevel(p *corev1.Pod, resources corev1.ResourceRequirements) *corev1.Pod {
	p.Spec.Resources = &resources
	return p
}

var nothing = corev1.ResourceRequirements{}

func TestCreate(t *testing.T) {
	for name, test := range map[string]struct{ given, want *corev1.Pod }{
		"seed 001": {pod(nothing), pod(both("memory=512Mi cpu=1"))},
		"every container": {pod(nothing, both("memory=1Gi"), both("cpu=2"), both("memory=1Mi cpu=1m")),
			pod(both("memory=512Mi cpu=1"), both("memory=1Gi cpu=1"), both("cpu=2 memory=512Mi"),
				both("memory=1Mi cpu=1m"))},
		"a request is enough": {pod(resources("memory=1Gi cpu=2", "")), pod(resources("memory=1Gi cpu=2", ""))},
		"a limit is enough":   {pod(resources("", "memory=1Gi cpu=2")), pod(resources("", "memory=1Gi cpu=2"))},
		"different ones": {pod(resources("memory=1Mi", "memory=1Gi")),
			pod(resources("memory=1Mi cpu=1", "memory=1Gi cpu=1"))},
		"zero is enough":           {pod(resources("cpu=0", "memory=0")), pod(resources("cpu=0", "memory=0"))},
		"other resources are kept": {pod(both("nvidia.com/gpu=1")), pod(both("nvidia.com/gpu=1 memory=512Mi cpu=1"))},
		"init containers": {withInit(pod(both("memory=1Mi cpu=1")), nothing, both("cpu=2")),
			withInit(pod(both("memory=1Mi cpu=1")), both("memory=512Mi cpu=1"), both("cpu=2 memory=512Mi"))},
		"the pod says memory": {withPodLevel(pod(nothing), resources("", "memory=1Mi")),
			withPodLevel(pod(both("cpu=1")), resources("", "memory=1Mi"))},
		"the pod says cpu": {withPodLevel(pod(nothing), resources("cpu=1m", "")),
			withPodLevel(pod(both("memory=512Mi")), resources("cpu=1m", ""))},
		"the pod says others": {withPodLevel(pod(nothing), both("hugepages-2Mi=2Mi")),
			withPodLevel(pod(both("memory=512Mi cpu=1")), both("hugepages-2Mi=2Mi"))},
		"no containers": {pod(), pod()},
	} {
		t.Run(name, func(t *testing.T) {
			got := plugintest.New(t, Descriptor, "").Admit(t, plugintest.Create(test.given)).Admitted(t).Object
			if !apiequality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec, test.want.Spec)
			}
		})
	}
}

// An update is to leave resources as they are stored: any other would be refused.
func TestUpdate(t *testing.T) {
	for name, test := range map[string]struct{ given, stored, want *corev1.Pod }{
		"stored before the plugin was on": {pod(nothing), pod(nothing), pod(nothing)},
		"stored with the defaults": {pod(nothing), pod(both("memory=512Mi cpu=1")),
			pod(both("memory=512Mi cpu=1"))},
		"stored with the defaults, as numbers": {pod(nothing), pod(both("memory=536870912 cpu=1000m")),
			pod(both("memory=512Mi cpu=1"))},
		"stored with one default": {pod(both("memory=1Gi")), pod(both("memory=1Gi cpu=1")),
			pod(both("memory=1Gi cpu=1"))},
		"stored with something else": {pod(nothing), pod(both("memory=1Gi cpu=2")), pod(nothing)},
		"stored with another limit": {pod(nothing), pod(resources("memory=512Mi cpu=1", "memory=1Gi cpu=2")),
			pod(nothing)},
		"stored with a request only": {pod(nothing), pod(resources("memory=512Mi cpu=1", "")), pod(nothing)},
		"another container has them": {pod(nothing, nothing), pod(nothing, both("memory=512Mi cpu=1")),
			pod(nothing, both("memory=512Mi cpu=1"))},
		"one container more": {pod(nothing, nothing), pod(both("memory=512Mi cpu=1")),
			pod(both("memory=512Mi cpu=1"), nothing)},
		"init containers": {withInit(pod(nothing), nothing, nothing),
			withInit(pod(nothing), both("memory=512Mi cpu=1"), nothing),
			withInit(pod(nothing), both("memory=512Mi cpu=1"), nothing)},
		"everything is said": {pod(both("memory=1Gi cpu=2")), pod(both("memory=512Mi cpu=1")),
			pod(both("memory=1Gi cpu=2"))},
	} {
		t.Run(name, func(t *testing.T) {
			got := plugintest.New(t, Descriptor, "").Admit(t,
				plugintest.Update(test.given, test.stored)).Admitted(t).Object
			if !apiequality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec, test.want.Spec)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"resize": plugintest.Update(pod(nothing), pod(both("memory=512Mi cpu=1"))).On("pods", "resize"),
		"status": plugintest.Update(pod(nothing), pod(both("memory=512Mi cpu=1"))).On("pods", "status"),
		"ephemeral containers": plugintest.Update(pod(nothing), pod(both("memory=512Mi cpu=1"))).On("pods",
			"ephemeralcontainers"),
		"binding": plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		"pod templates": plugintest.Create(
			&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: pod(nothing).Spec}}),
		"delete": plugintest.Delete(pod(nothing)),
		"exec":   plugintest.Connect(pod(nothing), "exec", &corev1.PodExecOptions{}),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).Refused(t, 400,
		"ResourceDefaults: the object of a request for pods is a *v1.ConfigMap")
	subject.Admit(t, plugintest.Update(pod(nothing), &corev1.ConfigMap{})).Refused(t, 400,
		"ResourceDefaults: the object of a request for pods is a *v1.ConfigMap")
}

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: gatehouse.dev/v1alpha1\nkind: ResourceDefaultsConfiguration\n"
	for name, test := range map[string]struct{ config, want string }{
		"blank":         {" \n", "memory=512Mi cpu=1"},
		"nothing in it": {head, "memory=512Mi cpu=1"},
		"null":          {head + "memory: null", "memory=512Mi cpu=1"},
		"memory":        {head + "memory: 64Mi", "memory=64Mi cpu=1"},
		"cpu":           {head + "cpu: 100m", "memory=512Mi cpu=100m"},
		"numbers":       {head + "cpu: 2\nmemory: 1e6", "memory=1e6 cpu=2"},
		"JSON": {`{"apiVersion": "gatehouse.dev/v1alpha1", "kind": "ResourceDefaultsConfiguration", ` +
			`"cpu": "2", "memory": "1Gi"}`, "memory=1Gi cpu=2"},
		"with a comment": {"# ours\n" + head + "cpu: 2", "memory=512Mi cpu=2"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, test.config)
			got := subject.Admit(t, plugintest.Create(pod(nothing))).Object
			if want := pod(both(test.want)); !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec, want.Spec)
			}
		})
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	const (
		head     = "apiVersion: gatehouse.dev/v1alpha1\nkind: ResourceDefaultsConfiguration\n"
		quantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
	)
	for name, test := range map[string]struct{ config, want string }{
		"no kind": {"memory: 1Gi",
			`is kind "" in apiVersion "", must be kind ResourceDefaultsConfiguration in apiVersion ` +
				`gatehouse.dev/v1alpha1`},
		"another kind": {"apiVersion: gatehouse.dev/v1alpha1\nkind: Other\nx: y",
			`is kind "Other" in apiVersion "gatehouse.dev/v1alpha1", must be kind ResourceDefaultsConfiguration in ` +
				`apiVersion gatehouse.dev/v1alpha1`},
		"another version": {"apiVersion: v1\nkind: ResourceDefaultsConfiguration",
			`is kind "ResourceDefaultsConfiguration" in apiVersion "v1", must be kind ResourceDefaultsConfiguration ` +
				`in apiVersion gatehouse.dev/v1alpha1`},
		"unknown field": {head + "disk: 1Gi", `unknown field "disk"`},
		"wrong case":    {head + "CPU: 1", `unknown field "CPU", did you mean "cpu"?`},
		"repeated field": {head + "cpu: 1\ncpu: 2",
			"yaml: unmarshal errors:\n  line 4: key \"cpu\" already set in map"},
		"two documents":  {head + "cpu: 1\n---\n" + head, "more than one YAML document: must be one"},
		"unparsable":     {head + "memory: lots", `memory: Invalid value: "lots": ` + quantity},
		"not a quantity": {head + "cpu: [1]", `cpu: Invalid value: "[1]": ` + quantity},
		"negative":       {head + "memory: -1Gi", `memory: Invalid value: "-1Gi": must be greater than zero`},
		"zero":           {head + "cpu: 0", `cpu: Invalid value: "0": must be greater than zero`},
		"both": {head + "memory: -1\ncpu: one",
			`[memory: Invalid value: "-1": must be greater than zero, cpu: Invalid value: "one": ` + quantity + `]`},
		"not YAML":      {"{", "yaml: line 1: did not find expected node content"},
		"not an object": {"hello", "is of type string, must be an object"},
		"not a kind":    {"kind: [1]", "kind: is of type array, must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), nil)
			if want := "the configuration of ResourceDefaults: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	_, err := Descriptor.New(iotest.ErrReader(errors.New("disk gone")), nil)
	if err == nil || err.Error() != "reading the configuration of ResourceDefaults: disk gone" {
		t.Errorf("got %v", err)
	}
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

// The defaults that a pod gets are its own.
func TestDefaultsAreCopies(t *testing.T) {
	subject := plugintest.New(t, Descriptor,
		"memory: 1.50000000000000000001Gi\napiVersion: gatehouse.dev/v1alpha1\nkind: ResourceDefaultsConfiguration")
	first := subject.Admit(t, plugintest.Create(pod(nothing))).Object.(*corev1.Pod)
	memory := first.Spec.Containers[0].Resources.Limits.Memory()
	before := memory.DeepCopy()
	memory.Add(*memory)
	second := subject.Admit(t, plugintest.Create(pod(nothing))).Object.(*corev1.Pod)
	if got := second.Spec.Containers[0].Resources.Limits.Memory(); !got.Equal(before) {
		t.Errorf("the default has become %s", got)
	}
}

func BenchmarkAdmit(b *testing.B) {
	built, err := Descriptor.New(io.Reader(nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	given := pod(both("memory=1Gi cpu=1"), both("memory=1Gi cpu=1"))
	a := admission.NewAttributesRecord(given, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := built.(plugin.Mutator).Admit(b.Context(), a, nil); err != nil {
			b.Fatal(err)
		}
	}
}
