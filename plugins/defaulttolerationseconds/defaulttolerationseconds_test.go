// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package defaulttolerationseconds

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func toleration(key string, operator corev1.TolerationOperator, effect corev1.TaintEffect,
	seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: operator, Effect: effect}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func pod(tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{Tolerations: tolerations}}
}

const (
	ready = "node.kubernetes.io/not-ready"
	reach = "node.kubernetes.io/unreachable"
)

// Upstream: plugin/pkg/admission/defaulttolerationseconds, TestForgivenessAdmission. That the alpha
// keys count was so there until 1.16; Kubernetes' documentation still names one.
func TestTolerations(t *testing.T) {
	var (
		ready300 = toleration(ready, "Exists", "NoExecute", 300)
		reach300 = toleration(reach, "Exists", "NoExecute", 300)
		ready700 = toleration(ready, "Exists", "NoExecute", 700)
		reach700 = toleration(reach, "Exists", "NoExecute", 700)
	)
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct{ given, added []corev1.Toleration }{
		"nothing is said": {nil, []corev1.Toleration{ready300, reach300}},
		"of other taints": {[]corev1.Toleration{toleration("foo", "Equal", "NoExecute", 700)},
			[]corev1.Toleration{ready300, reach300}},
		"of not ready":   {[]corev1.Toleration{ready700}, []corev1.Toleration{reach300}},
		"of unreachable": {[]corev1.Toleration{reach700}, []corev1.Toleration{ready300}},
		"of both":        {[]corev1.Toleration{ready700, reach700}, nil},
		"of both, forever": {[]corev1.Toleration{toleration(ready, "Exists", "NoExecute"),
			toleration(reach, "Exists", "NoExecute")}, nil},
		"with a value": {[]corev1.Toleration{toleration(ready, "Equal", "NoExecute", 0)},
			[]corev1.Toleration{reach300}},
		"for all effects": {[]corev1.Toleration{toleration(ready, "Exists", "")},
			[]corev1.Toleration{reach300}},
		"for another effect": {[]corev1.Toleration{toleration(ready, "Exists", "NoSchedule")},
			[]corev1.Toleration{ready300, reach300}},
		"of all keys":   {[]corev1.Toleration{toleration("", "Exists", "NoExecute", 700)}, nil},
		"of everything": {[]corev1.Toleration{toleration("", "Exists", "")}, nil},
		"of all keys, other effect": {[]corev1.Toleration{toleration("", "Exists", "NoSchedule")},
			[]corev1.Toleration{ready300, reach300}},
		"by the alpha key that isn't documented": {[]corev1.Toleration{
			toleration("node.alpha.kubernetes.io/notReady", "Exists", "NoExecute", 700)},
			[]corev1.Toleration{ready300, reach300}},
		"by the documented one, for all effects": {[]corev1.Toleration{
			toleration("node.alpha.kubernetes.io/unreachable", "Exists", "")}, []corev1.Toleration{ready300}},
		"by the documented one": {[]corev1.Toleration{toleration("node.alpha.kubernetes.io/unreachable", "Exists",
			"NoExecute", 700)}, []corev1.Toleration{ready300}},
	} {
		t.Run(name, func(t *testing.T) {
			want := pod(append(test.given[:len(test.given):len(test.given)], test.added...)...)
			for _, request := range []plugintest.Request{plugintest.Create(pod(test.given...)),
				plugintest.Update(pod(test.given...), pod())} {
				got := subject.Admit(t, request).Admitted(t).Object
				if !apiequality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s: got  %v\nwant %v", request.Operation, got.(*corev1.Pod).Spec.Tolerations,
						want.Spec.Tolerations)
				}
			}
		})
	}
}

// Upstream: TestHandles.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"status":               plugintest.Update(pod(), pod()).On("pods", "status"),
		"resize":               plugintest.Update(pod(), pod()).On("pods", "resize"),
		"ephemeral containers": plugintest.Update(pod(), pod()).On("pods", "ephemeralcontainers"),
		"binding":              plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		"pod templates":        plugintest.Create(&corev1.PodTemplate{}),
		"delete":               plugintest.Delete(pod()),
		"exec":                 plugintest.Connect(pod(), "exec", &corev1.PodExecOptions{}),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).Refused(t, 400,
		"DefaultTolerationSeconds: the object of a request for pods is a *v1.ConfigMap")
}

const head = "apiVersion: gatehouse.dev/v1alpha1\nkind: DefaultTolerationSecondsConfiguration\n"

func TestConfiguration(t *testing.T) {
	for name, test := range map[string]struct {
		config                string
		notReady, unreachable int64
	}{
		"none":          {"", 300, 300},
		"blank":         {" \n", 300, 300},
		"nothing in it": {head, 300, 300},
		"null":          {head + "notReadyTolerationSeconds: null", 300, 300},
		"not ready":     {head + "notReadyTolerationSeconds: 60", 60, 300},
		"unreachable":   {head + "unreachableTolerationSeconds: 60", 300, 60},
		"both":          {head + "notReadyTolerationSeconds: 0\nunreachableTolerationSeconds: -1", 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, test.config)
			got := subject.Admit(t, plugintest.Create(pod())).Object
			want := pod(toleration(ready, "Exists", "NoExecute", test.notReady),
				toleration(reach, "Exists", "NoExecute", test.unreachable))
			if !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Pod).Spec.Tolerations, want.Spec.Tolerations)
			}
		})
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"another kind": {"apiVersion: v1\nkind: Pod",
			`is kind "Pod" in apiVersion "v1", must be kind DefaultTolerationSecondsConfiguration in apiVersion ` +
				`gatehouse.dev/v1alpha1`},
		"unknown field": {head + "notReady: 1", `unknown field "notReady"`},
		"a duration": {head + "notReadyTolerationSeconds: 5m",
			"notReadyTolerationSeconds: is of type string, must be a whole number"},
		"a fraction": {head + "unreachableTolerationSeconds: 1.5",
			"unreachableTolerationSeconds: is of type number 1.5, must be a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), &plugin.Env{})
			if want := "the configuration of DefaultTolerationSeconds: " + test.want; err == nil ||
				err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// The seconds that a pod gets are its own.
func TestDefaultsAreCopies(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	first := subject.Admit(t, plugintest.Create(pod())).Object.(*corev1.Pod)
	*first.Spec.Tolerations[0].TolerationSeconds = 1
	second := subject.Admit(t, plugintest.Create(pod())).Object.(*corev1.Pod)
	if got := *second.Spec.Tolerations[0].TolerationSeconds; got != 300 {
		t.Errorf("the default has become %d", got)
	}
}

func TestItIsOn(t *testing.T) {
	if !Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}
