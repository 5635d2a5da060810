// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podtopologylabels

import (
	"maps"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	zone   = "topology.kubernetes.io/zone"
	region = "topology.kubernetes.io/region"
)

type labels = map[string]string

func node(of labels) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: of}}
}

func pod(node string, has labels) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: maps.Clone(has)},
		Spec: corev1.PodSpec{NodeName: node}}
}

func bound(kind, node string, has labels) plugintest.Request {
	return plugintest.Create(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
		Labels: maps.Clone(has)}, Target: corev1.ObjectReference{Kind: kind, Name: node}}).On("pods", "binding")
}

// Upstream: TestPodTopology in plugin/pkg/admission/podtopologylabels/admission_test.go.
func TestLabels(t *testing.T) {
	for name, test := range map[string]struct{ node, has, want labels }{
		"both":                    {labels{zone: "a", region: "b"}, nil, labels{zone: "a", region: "b"}},
		"one":                     {labels{zone: "a"}, nil, labels{zone: "a"}},
		"none":                    {nil, nil, nil},
		"an empty one":            {labels{zone: ""}, nil, labels{zone: ""}},
		"others":                  {labels{"topology.k8s.io/zone": "a", "topology.kubernetes.io/rack": "b"}, nil, nil},
		"of a subdomain":          {labels{"sub.topology.kubernetes.io/zone": "a"}, nil, nil},
		"no domain":               {labels{"zone": "a"}, nil, nil},
		"besides the pod's":       {labels{zone: "a"}, labels{"l": "1"}, labels{"l": "1", zone: "a"}},
		"instead of the pod's":    {labels{zone: "a"}, labels{zone: "mine"}, labels{zone: "a"}},
		"the pod's that it lacks": {labels{zone: "a"}, labels{region: "mine"}, labels{zone: "a", region: "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", node(test.node))
			binding := subject.Admit(t, bound("Node", "n", test.has)).Admitted(t).Object.(*corev1.Binding)
			created := subject.Admit(t, plugintest.Create(pod("n", test.has))).Admitted(t).Object.(*corev1.Pod)
			if !maps.Equal(binding.Labels, test.want) || !maps.Equal(created.Labels, test.want) {
				t.Errorf("the binding has %v, the pod %v, want %v", binding.Labels, created.Labels, test.want)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", node(labels{zone: "a"}))
	for name, request := range map[string]plugintest.Request{
		"a pod without a node":        plugintest.Create(pod("", nil)),
		"a node that isn't there":     plugintest.Create(pod("other", nil)),
		"bound to one that isn't":     bound("Node", "other", nil),
		"bound to something else":     bound("Machine", "n", nil),
		"bound to nothing":            bound("", "n", nil),
		"an update":                   plugintest.Update(pod("n", nil), pod("", nil)),
		"an eviction":                 plugintest.Create(pod("n", nil)).On("pods", "eviction"),
		"a binding of the older kind": bound("Node", "n", nil).On("bindings", ""),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&corev1.Secret{}).On("pods", "")).Refused(t, 400,
		"PodTopologyLabels: the object of a request for pods is a *v1.Secret")
	subject.Admit(t, plugintest.Create(&corev1.Pod{}).On("pods", "binding")).Refused(t, 400,
		"PodTopologyLabels: the object of a request for pods is a *v1.Pod")
}

func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil, &plugin.Env{Informers: informers.NewSharedInformerFactory(fake.NewClientset(),
			0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Admit(t, plugintest.Create(pod("", nil))).Admitted(t)
		subject.Admit(t, plugintest.Create(pod("n", nil))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
	})
}
