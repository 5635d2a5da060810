// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedeclaredfeaturevalidator

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// slicesOf returns the same ResourceSlice in all versions: a device that
// is named bare has no node-allocatable resources.
func slicesOf(shared place, perDevice bool, devices ...device) map[string]runtime.Object {
	meta := metav1.ObjectMeta{Name: "s"}
	v1 := &resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{NodeName: &shared.node,
		NodeSelector: shared.selector, AllNodes: &shared.all, PerDeviceNodeSelection: &perDevice}}
	beta2 := &resourcev1beta2.ResourceSlice{ObjectMeta: meta, Spec: resourcev1beta2.ResourceSliceSpec{
		NodeName: &shared.node, NodeSelector: shared.selector, AllNodes: &shared.all, PerDeviceNodeSelection: &perDevice}}
	beta1 := &resourcev1beta1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1beta1.ResourceSliceSpec{
		NodeName: shared.node, NodeSelector: shared.selector, AllNodes: shared.all, PerDeviceNodeSelection: &perDevice}}
	for _, d := range devices {
		one, two := resourcev1.Device{Name: d.name}, resourcev1beta2.Device{Name: d.name}
		basic := resourcev1beta1.BasicDevice{}
		if d.name != "bare" {
			one.NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{"cpu": {}}
			two.NodeAllocatableResources = map[corev1.ResourceName]resourcev1beta2.NodeAllocatableResource{"cpu": {}}
			basic.NodeAllocatableResources = map[corev1.ResourceName]resourcev1beta1.NodeAllocatableResource{"cpu": {}}
		}
		one.NodeName, one.NodeSelector, one.AllNodes = &d.node, d.selector, &d.all
		two.NodeName, two.NodeSelector, two.AllNodes = &d.node, d.selector, &d.all
		basic.NodeName, basic.NodeSelector, basic.AllNodes = &d.node, d.selector, &d.all
		v1.Spec.Devices, beta2.Spec.Devices = append(v1.Spec.Devices, one), append(beta2.Spec.Devices, two)
		beta1.Spec.Devices = append(beta1.Spec.Devices, resourcev1beta1.Device{Name: d.name, Basic: &basic})
	}
	return map[string]runtime.Object{"v1": v1, "v1beta2": beta2, "v1beta1": beta1}
}

// pool selects the nodes of a pool.
func pool(value string) place {
	return place{selector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: "In", Values: []string{value}}}}}}}
}

// withSlices has the gate on, and nodes of a pool each.
func withSlices(t *testing.T, on bool) *plugintest.Plugin {
	t.Helper()
	var nodes []runtime.Object
	for name, declared := range map[string][]string{"new": {"Other", needed}, "newer": {needed}, "old": {"Other"},
		"older": nil} {
		n := node(name, declared...)
		n.Labels = map[string]string{"pool": name[:3]}
		nodes = append(nodes, n)
	}
	cluster := plugintest.NewCluster(t, nodes...)
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		nodeAllocatable: {Default: on, PreRelease: featuregate.Alpha}}); err != nil {
		t.Fatal(err)
	}
	cluster.Env.Features = gates
	return cluster.Build(t, Descriptor, "")
}

// Upstream: TestValidateResourceSlice in plugin/pkg/admission/nodedeclaredfeatures/admission_test.go.
func TestResourceSlices(t *testing.T) {
	const (
		lacks  = " does not support DRANodeAllocatableResources feature"
		nobody = " in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
	)
	d, all := device{name: "d"}, place{all: true}
	of := func(p place) device { return device{"d", p} }
	for name, test := range map[string]struct {
		shared    place
		perDevice bool
		devices   []device
		want      string
	}{
		"a node that has it":         {place{node: "new"}, false, []device{d}, ""},
		"a node that hasn't":         {place{node: "old"}, false, []device{d}, `node "old"` + lacks},
		"a node that isn't there":    {place{node: "gone"}, false, []device{d}, `node "gone" not found for device "d"`},
		"no such device":             {place{node: "gone"}, false, []device{{name: "bare"}}, ""},
		"no device":                  {place{node: "gone"}, false, nil, ""},
		"nodes that have it":         {pool("new"), false, []device{d}, ""},
		"nodes that haven't":         {pool("old"), false, []device{d}, `node "old"` + lacks},
		"no node is selected":        {pool("none"), false, []device{d}, ""},
		"all nodes":                  {all, false, []device{d}, `node "old"` + lacks},
		"no nodes":                   {place{}, false, []device{d}, `device "d"` + nobody},
		"no nodes, no such device":   {place{}, false, []device{{name: "bare"}}, ""},
		"its own node":               {place{}, true, []device{of(place{node: "new"})}, ""},
		"its own node hasn't":        {all, true, []device{of(place{node: "new"}), of(place{node: "older"})}, `node "older"` + lacks},
		"its own nodes":              {all, true, []device{of(pool("new"))}, ""},
		"its own nodes haven't":      {place{}, true, []device{of(pool("old"))}, `node "old"` + lacks},
		"all nodes for itself":       {place{}, true, []device{of(all)}, `node "old"` + lacks},
		"no nodes of its own":        {place{node: "new"}, true, []device{d}, `device "d"` + nobody},
		"nodes of its own, not used": {place{node: "new"}, false, []device{of(all)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject, off := withSlices(t, true), withSlices(t, false)
			for version, object := range slicesOf(test.shared, test.perDevice, test.devices...) {
				for _, request := range []plugintest.Request{plugintest.Create(object), plugintest.Update(object, object)} {
					off.Validate(t, request).Admitted(t)
					result := subject.Validate(t, request)
					if test.want == "" {
						result.Admitted(t)
					} else {
						result.Refused(t, 403, `resourceslices.resource.k8s.io "s" is forbidden: `+test.want)
					}
				}
				if t.Failed() {
					t.Fatalf("in %s", version)
				}
			}
		})
	}
}

func TestWrongResourceSlices(t *testing.T) {
	subject := withSlices(t, true)
	wrong := plugintest.Create(slicesOf(place{}, false)["v1"])
	wrong.Object = &corev1.Secret{}
	subject.Validate(t, wrong).Refused(t, 400,
		"NodeDeclaredFeatureValidator: the object of a request for resourceslices is a *v1.Secret")
	unselectable := place{selector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: "Like", Values: []string{"x"}}}}}}}
	for _, object := range slicesOf(unselectable, false, device{name: "d"}) {
		if code := subject.Validate(t, plugintest.Create(object)).Code(); code != 400 {
			t.Errorf("a selector with an unknown operator is answered with %d", code)
		}
	}
}

func TestResourceSlicesWaitForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil, &plugin.Env{Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)})
		if err != nil {
			t.Fatal(err)
		}
		built.(*nodeDeclaredFeatureValidator).slices = true
		subject := plugintest.Plugin{Built: built}
		objects := slicesOf(place{node: "new"}, false, device{name: "bare"})
		subject.Validate(t, plugintest.Create(objects["v1"])).Admitted(t)
		objects = slicesOf(place{node: "new"}, false, device{name: "d"})
		subject.Validate(t, plugintest.Create(objects["v1"])).Refused(t, 403,
			`resourceslices.resource.k8s.io "s" is forbidden: not yet ready to handle request`)
	})
}
