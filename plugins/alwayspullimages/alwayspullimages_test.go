// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package alwayspullimages

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// pod is written as "list:image=policy …", where list is init, main, debug or volume.
func pod(text string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, one := range strings.Fields(text) {
		list, rest, _ := strings.Cut(one, ":")
		image, written, _ := strings.Cut(rest, "=")
		policy := corev1.PullPolicy(written)
		c := corev1.Container{Name: list + "-" + image, Image: image, ImagePullPolicy: policy}
		switch list {
		case "init":
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case "main":
			p.Spec.Containers = append(p.Spec.Containers, c)
		case "debug":
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers,
				corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)})
		case "volume":
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: image, VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: policy},
			}})
		default:
			panic(text)
		}
	}
	return p
}

func withOtherVolume(p *corev1.Pod) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	return p
}

// What may be on creation: upstream's plugin/pkg/admission/alwayspullimages, TestAdmission and
// TestValidate. In upstream a refusal has the status 500, as what is wrong is a list of refusals
// there.
func TestCreate(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		given, want *corev1.Pod
		// with what the validating phase refuses the given one; empty where it admits it
		refused string
	}{
		"always": {pod("main:a=Always"), pod("main:a=Always"), ""},
		"never": {pod("main:a=Never"), pod("main:a=Always"),
			`spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"`},
		"none said": {pod("main:a="), pod("main:a=Always"),
			`spec.containers[0].imagePullPolicy: Unsupported value: "": supported values: "Always"`},
		"every list": {
			pod("init:a=Never init:b=Always main:c=IfNotPresent main:d=Always debug:e=Never volume:f=Never"),
			pod("init:a=Always init:b=Always main:c=Always main:d=Always debug:e=Always volume:f=Always"),
			`[spec.initContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always", ` +
				`spec.containers[0].imagePullPolicy: Unsupported value: "IfNotPresent": supported values: "Always", ` +
				`spec.ephemeralContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: ` +
				`"Always", ` +
				`spec.volumes[0].image.pullPolicy: Unsupported value: "Never": supported values: "Always"]`,
		},
		"the second volume": {
			withOtherVolume(pod("main:a=Always volume:b=Always volume:c=IfNotPresent")),
			withOtherVolume(pod("main:a=Always volume:b=Always volume:c=Always")),
			`spec.volumes[1].image.pullPolicy: Unsupported value: "IfNotPresent": supported values: "Always"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := subject.Admit(t, plugintest.Create(test.given)).Admitted(t).Object
			if !apiequality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec, test.want.Spec)
			}
			subject.Validate(t, plugintest.Create(test.want)).Admitted(t)
			result := subject.Validate(t, plugintest.Create(test.given))
			if test.refused == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, `pods "p" is forbidden: `+test.refused)
			}
		})
	}
}

// Upstream: TestAdmission in plugin/pkg/admission/alwayspullimages, for the updates; #96624 says
// why they are left alone.
func TestUpdate(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		stored, given, want string
		refused             string // path of what the validating phase refuses
	}{
		"no image changes": {"init:a=Never main:b=Never", "init:a=Never main:b=Never",
			"init:a=Never main:b=Never", ""},
		"images change places": {"init:a=Never main:b=Never", "init:b=Never main:a=Never",
			"init:b=Never main:a=Never", ""},
		"an image of another list": {"main:a=Never debug:b=Always", "main:b=Never debug:b=Always",
			"main:b=Never debug:b=Always", ""},
		"an image less": {"main:a=Never main:b=Never", "main:a=Never main:a=Never",
			"main:a=Never main:a=Never", ""},
		"an image changes": {"init:a=Never main:b=Never", "init:a=Never main:c=Never",
			"init:a=Always main:c=Always", "spec.initContainers[0]"},
		"an init container's changes": {"init:a=Always main:b=Always", "init:c=Never main:b=Always",
			"init:c=Always main:b=Always", "spec.initContainers[0]"},
		"an image changes, for always": {"main:b=Always", "main:c=Always", "main:c=Always", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := plugintest.Update(pod(test.given), pod(test.stored))
			got := subject.Admit(t, request).Admitted(t).Object
			if want := pod(test.want); !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec, want.Spec)
			}
			result := subject.Validate(t, request)
			if (test.refused != "") != (result.Err != nil) || !strings.Contains(result.Message(), test.refused) {
				t.Errorf("validating: got %v, want a refusal of %q", result.Err, test.refused)
			}
		})
	}
}

// Upstream leaves pods/ephemeralcontainers alone, and so the image of an ephemeral container is not
// pulled with the pod's credentials.
func TestEphemeralContainers(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	const path = `pods "p" is forbidden: spec.ephemeralContainers[1].imagePullPolicy: Unsupported value: "Never": ` +
		`supported values: "Always"`
	for name, test := range map[string]struct {
		stored, given, want string
		refused             string
	}{
		"one is added": {"main:a=Never debug:b=Never", "main:a=Never debug:b=Never debug:c=Never",
			"main:a=Never debug:b=Never debug:c=Always", path},
		"with an image of the pod": {"main:a=Never debug:b=Never", "main:a=Never debug:b=Never debug:a=Never",
			"main:a=Never debug:b=Never debug:a=Always", path},
		"with the right policy": {"main:a=Never debug:b=Never", "main:a=Never debug:b=Never debug:c=Always",
			"main:a=Never debug:b=Never debug:c=Always", ""},
		"none is added": {"main:a=Never debug:b=Never", "main:a=Never debug:b=Never",
			"main:a=Never debug:b=Never", ""},
		"the volumes are left, too": {"main:a=Never volume:v=Never", "main:a=Never volume:v=Never",
			"main:a=Never volume:v=Never", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := plugintest.Update(pod(test.given), pod(test.stored)).On("pods", "ephemeralcontainers")
			got := subject.Admit(t, request).Admitted(t).Object
			if want := pod(test.want); !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec, want.Spec)
			}
			if result := subject.Validate(t, request); test.refused == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.refused)
			}
		})
	}
}

// Upstream: TestOtherResources.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	never := pod("main:a=Never")
	for name, request := range map[string]plugintest.Request{
		"status":        plugintest.Update(never, pod("main:b=Never")).On("pods", "status"),
		"resize":        plugintest.Update(never, pod("main:b=Never")).On("pods", "resize"),
		"binding":       plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		"pod templates": plugintest.Create(&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: never.Spec}}),
		"delete":        plugintest.Delete(never),
		"exec":          plugintest.Connect(never, "exec", &corev1.PodExecOptions{}),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
		subject.Validate(t, request).Admitted(t)
	}
	const bad = "AlwaysPullImages: the object of a request for pods is a *v1.ConfigMap"
	for _, request := range []plugintest.Request{
		plugintest.Create(&corev1.ConfigMap{}).On("pods", ""),
		plugintest.Update(&corev1.ConfigMap{}, never).On("pods", "ephemeralcontainers"),
		plugintest.Update(never, &corev1.ConfigMap{}),
	} {
		subject.Admit(t, request).Refused(t, 400, bad)
		subject.Validate(t, request).Refused(t, 400, bad)
	}
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "AlwaysPullImages takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}

// The chain passes every write of a pod through here.
func TestNoAllocations(t *testing.T) {
	built, err := Descriptor.New(nil, &plugin.Env{})
	if err != nil {
		t.Fatal(err)
	}
	a := admission.NewAttributesRecord(pod("init:a=Always main:b=Always main:c=Always volume:d=Always"), nil,
		corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	if n := testing.AllocsPerRun(100, func() {
		if err := built.(plugin.Mutator).Admit(context.Background(), a, nil); err != nil {
			t.Error(err)
		}
		if err := built.(plugin.Validator).Validate(context.Background(), a, nil); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
