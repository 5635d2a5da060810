// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package taintnodesbycondition

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
}

// Upstream: plugin/pkg/admission/nodetaint, Test_nodeTaints.
func TestCreate(t *testing.T) {
	var (
		wanted    = corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}
		other     = corev1.Taint{Key: "example.com/kept", Value: "v", Effect: "NoExecute"}
		execute   = corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}
		withValue = corev1.Taint{Key: "node.kubernetes.io/not-ready", Value: "v", Effect: "NoSchedule"}
	)
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct{ given, want *corev1.Node }{
		"none":                  {node(), node(wanted)},
		"others are kept":       {node(other), node(other, wanted)},
		"of another effect":     {node(execute), node(execute, wanted)},
		"there already":         {node(wanted, other), node(wanted, other)},
		"there with some value": {node(withValue), node(withValue)},
	} {
		t.Run(name, func(t *testing.T) {
			got := subject.Admit(t, plugintest.Create(test.given)).Admitted(t).Object
			if !apiequality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got.(*corev1.Node).Spec.Taints, test.want.Spec.Taints)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"update": plugintest.Update(node(), node()),
		"delete": plugintest.Delete(node()),
		"status": plugintest.Create(node()).On("nodes", "status"),
		"pods":   plugintest.Create(&corev1.Pod{}),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&corev1.ConfigMap{}).On("nodes", "")).Refused(t, 400,
		"TaintNodesByCondition: the object of a request for nodes is a *v1.ConfigMap")
}

func TestItIsOnAndTakesNoConfiguration(t *testing.T) {
	if !Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "TaintNodesByCondition takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
