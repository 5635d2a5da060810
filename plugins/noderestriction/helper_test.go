// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// The tests' requests are those of the node mine, unless they say otherwise. What has a UID has its
// name's, with -uid behind it.

func nodeNamed(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	for _, change := range changes {
		change(n)
	}
	return n
}

// podOn is a pod bound to a node, or to none.
func podOn(node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-uid"},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "sa"},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// mirrorPodOn is a mirror pod as a node's kubelet makes it.
func mirrorPodOn(node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	mirror := func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = ""
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node,
			UID: types.UID(node + "-uid"), Controller: new(true)}}
	}
	return podOn(node, append([]func(*corev1.Pod){mirror}, changes...)...)
}

// byMine makes the request that of the node mine.
func byMine(r plugintest.Request) plugintest.Request { return byNode(r, "mine") }

func byNode(r plugintest.Request, node string) plugintest.Request {
	return r.By("system:node:"+node, "system:nodes", "system:authenticated")
}

// setup is what differs of a plugin between tests.
type setup struct {
	objects    []runtime.Object
	authorizer authorizer.AuthorizerFunc
	off, on    []featuregate.Feature
}

// gates are the plugin's feature gates as Kubernetes 1.37 has them by default.
func gates(t plugintest.TB, off, on []featuregate.Feature) featuregate.FeatureGate {
	t.Helper()
	gates := featuregate.NewFeatureGate()
	set := map[string]bool{}
	for _, gate := range off {
		set[string(gate)] = false
	}
	for _, gate := range on {
		set[string(gate)] = true
	}
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		"AllowInsecureKubeletCertificateSigningRequests": {Default: false, PreRelease: featuregate.Deprecated},
		"ServiceAccountNodeAudienceRestriction":          {Default: true, PreRelease: featuregate.Beta},
		"PodCertificateRequest":                          {Default: true, PreRelease: featuregate.GA},
		"CSIVolumeHealth":                                {Default: false, PreRelease: featuregate.Alpha},
		"RecoverVolumeExpansionFailure":                  {Default: true, PreRelease: featuregate.GA},
	}); err != nil {
		t.Fatalf("feature gates: %v", err)
	}
	if err := gates.SetFromMap(set); err != nil {
		t.Fatalf("feature gates: %v", err)
	}
	return gates
}

func (s setup) build(t plugintest.TB) *plugintest.Plugin {
	t.Helper()
	cluster := plugintest.NewCluster(t, s.objects...)
	cluster.Env.Authorizer = s.authorizer
	if s.authorizer == nil {
		cluster.Env.Authorizer = authorizer.AuthorizerFunc(deny)
	}
	cluster.Env.Features = gates(t, s.off, s.on)
	return cluster.Build(t, Descriptor, "")
}

// verdict is what a test expects: empty where the request is admitted, else what follows
// `<resource> "<name>" is forbidden: `.
func verdict(t *testing.T, result plugintest.Result, resource, name, refused string) {
	t.Helper()
	if result.Changed {
		t.Error("the plugin changes the object")
	}
	if refused == "" {
		result.Admitted(t)
		return
	}
	result.Refused(t, 403, resource+` "`+name+`" is forbidden: `+refused)
}

// emptyEnv has everything that the plugin needs.
func emptyEnv(t *testing.T) *plugin.Env {
	client := fake.NewClientset()
	return &plugin.Env{
		Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
		Authorizer: authorizer.AuthorizerFunc(deny), Features: gates(t, nil, nil),
	}
}
