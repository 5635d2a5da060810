// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeclass

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin/plugintest"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
}

// pod makes a pod of a class, "" where it names none, with an overhead that may be nil.
func pod(class string, overhead corev1.ResourceList) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, Overhead: overhead}}
	if class != "" {
		p.Spec.RuntimeClassName = &class
	}
	return p
}

func scheduled(selector map[string]string, tolerations ...corev1.Toleration) *corev1.Pod {
	p := pod("placed", nil)
	p.Spec.NodeSelector, p.Spec.Tolerations = selector, tolerations
	return p
}

func tolerating(key, value string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value,
		Effect: corev1.TaintEffectNoSchedule}
}

func class(name string) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name}
}

func classes() []runtime.Object {
	plain, costly, empty, placed := class("plain"), class("costly"), class("empty"), class("placed")
	costly.Overhead = &nodev1.Overhead{PodFixed: amounts("100m", "1Mi")}
	empty.Overhead, empty.Scheduling = &nodev1.Overhead{}, &nodev1.Scheduling{}
	placed.Scheduling = &nodev1.Scheduling{
		NodeSelector: map[string]string{"vm": "yes", "zone": "a"},
		Tolerations:  []corev1.Toleration{tolerating("vm", "yes")},
	}
	return []runtime.Object{plain, costly, empty, placed}
}

const (
	refused  = `pods "p" is forbidden: pod rejected: `
	other    = refused + `Pod's Overhead doesn't match RuntimeClass's defined Overhead`
	nobody   = refused + `Pod Overhead set without corresponding RuntimeClass defined Overhead`
	notFound = refused + `RuntimeClass "gone" not found`
)

// Upstream: TestSetOverhead, TestValidateOverhead, TestValidate in
// plugin/pkg/admission/runtimeclass/admission_test.go.
func TestOverhead(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", classes()...)
	for name, test := range map[string]struct {
		given             *corev1.Pod
		want              corev1.ResourceList
		admitted, checked string // refusals of the two phases, of the pod as it is given
	}{
		"no class":                    {pod("", nil), nil, "", ""},
		"no class, an overhead":       {pod("", amounts("1", "1")), amounts("1", "1"), "", nobody},
		"no class, an empty one":      {pod("", corev1.ResourceList{}), corev1.ResourceList{}, "", nobody},
		"of a plain class":            {pod("plain", nil), nil, "", ""},
		"of a plain class, overhead":  {pod("plain", amounts("1", "1")), amounts("1", "1"), "", nobody},
		"of a costly class":           {pod("costly", nil), amounts("100m", "1Mi"), "", other},
		"the same overhead":           {pod("costly", amounts("100m", "1Mi")), amounts("100m", "1Mi"), "", ""},
		"the same, written otherwise": {pod("costly", amounts("0.1", "1048576")), amounts("100m", "1Mi"), "", ""},
		"another overhead":            {pod("costly", amounts("10m", "1Mi")), nil, other, other},
		"a part of it": {pod("costly", corev1.ResourceList{"cpu": resource.MustParse("100m")}), nil, other,
			other},
		"an empty one":              {pod("costly", corev1.ResourceList{}), amounts("100m", "1Mi"), "", other},
		"of an empty class":         {pod("empty", nil), nil, "", ""},
		"of an empty class, of own": {pod("empty", amounts("1", "1")), nil, other, other},
		"no such class":             {pod("gone", nil), nil, notFound, notFound},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Admit(t, plugintest.Create(test.given))
			if test.admitted != "" {
				result.Refused(t, 403, test.admitted)
			} else if got := result.Admitted(t).Object.(*corev1.Pod).Spec.Overhead; !apiequality.Semantic.DeepEqual(
				got, test.want) {
				t.Errorf("overhead is %v, want %v", got, test.want)
			}
			result = subject.Validate(t, plugintest.Create(test.given))
			if test.checked != "" {
				result.Refused(t, 403, test.checked)
			} else {
				result.Admitted(t)
			}
		})
	}
}

// Upstream: TestSetScheduling.
func TestScheduling(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", classes()...)
	both := map[string]string{"vm": "yes", "zone": "a"}
	vm, foo := tolerating("vm", "yes"), tolerating("foo", "bar")
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	const conflict = `pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector`
	for name, test := range map[string]struct {
		given *corev1.Pod
		want  *corev1.Pod
		err   string
	}{
		"nothing of its own": {scheduled(nil), scheduled(both, vm), ""},
		"another label": {scheduled(map[string]string{"disk": "ssd"}),
			scheduled(map[string]string{"disk": "ssd", "vm": "yes", "zone": "a"}, vm), ""},
		"the same label": {scheduled(map[string]string{"vm": "yes"}), scheduled(both, vm), ""},
		"another value": {scheduled(map[string]string{"vm": "no"}), nil,
			conflict + `[vm] = yes; pod.spec.nodeSelector[vm] = no`},
		"an empty value": {scheduled(map[string]string{"zone": ""}), nil,
			conflict + `[zone] = a; pod.spec.nodeSelector[zone] = `},
		"another toleration":        {scheduled(nil, foo), scheduled(both, foo, vm), ""},
		"the same toleration":       {scheduled(nil, foo, vm), scheduled(both, foo, vm), ""},
		"one that covers it":        {scheduled(nil, everything), scheduled(both, everything), ""},
		"one that covers its other": {scheduled(nil, foo, everything), scheduled(both, everything), ""},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Admit(t, plugintest.Create(test.given))
			if test.err != "" {
				result.Refused(t, 403, test.err)
				return
			}
			if got := result.Admitted(t).Object; !apiequality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("got %+v", got.(*corev1.Pod).Spec)
			}
			subject.Validate(t, plugintest.Create(test.want)).Admitted(t)
		})
	}
	// What pods got isn't the cache's.
	one := subject.Admit(t, plugintest.Create(scheduled(nil))).Object.(*corev1.Pod)
	one.Spec.NodeSelector["vm"], one.Spec.Tolerations[0].Key = "changed", "changed"
	costly := subject.Admit(t, plugintest.Create(pod("costly", nil))).Object.(*corev1.Pod)
	costly.Spec.Overhead["cpu"] = resource.MustParse("7")
	for given, want := range map[*corev1.Pod]*corev1.Pod{
		scheduled(nil): scheduled(both, vm), pod("costly", nil): pod("costly", amounts("100m", "1Mi")),
	} {
		if got := subject.Admit(t, plugintest.Create(given)).Object; !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("got %+v", got)
		}
	}
}

// Upstream: TestPrepareObjects.
func TestAClassIsReadLiveWhereTheCacheHasNone(t *testing.T) {
	for name, test := range map[string]struct {
		live  runtime.Object
		err   error
		code  int
		want  string
		calls []string
	}{
		"it has just come": {class("gone"), nil, 0, "", []string{"get runtimeclasses gone"}},
		"the read fails":   {nil, errors.New("etcd is down"), 500, "etcd is down", []string{"get runtimeclasses gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", classes()...)
			subject.Client.PrependReactor("get", "runtimeclasses",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, test.live, test.err })
			result := subject.Validate(t, plugintest.Create(pod("gone", nil)))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, test.code, test.want)
			}
			if got := subject.Calls(); !slices.Equal(got, test.calls) {
				t.Errorf("calls %q, want %q", got, test.calls)
			}
		})
	}
	subject := plugintest.New(t, Descriptor, "", classes()...)
	subject.Validate(t, plugintest.Create(pod("plain", nil))).Admitted(t)
	if got := subject.Calls(); len(got) > 0 {
		t.Errorf("what the cache has is read live: %q", got)
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	given := pod("gone", amounts("1", "1"))
	for name, request := range map[string]plugintest.Request{
		"update":    plugintest.Update(given, given),
		"delete":    plugintest.Delete(given),
		"binding":   plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		"templates": plugintest.Create(&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: given.Spec}}),
	} {
		if subject.Admit(t, request).Admitted(t).Handled || subject.Validate(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	const noPod = "RuntimeClass: the object of a request for pods is a *v1.Secret"
	subject.Admit(t, plugintest.Create(&corev1.Secret{}).On("pods", "")).Refused(t, 400, noPod)
	subject.Validate(t, plugintest.Create(&corev1.Secret{}).On("pods", "")).Refused(t, 400, noPod)
}
