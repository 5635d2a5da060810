// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"maps"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// Upstream: "My node object" and "Other node object" in Test_nodePlugin_Admit.
func TestNodes(t *testing.T) {
	tainted := func(value string) *corev1.Node {
		return nodeNamed("mine", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Value: value, Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	owned := func(by string) *corev1.Node {
		return nodeNamed("mine", func(n *corev1.Node) {
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Thing", Name: by}}
		})
	}
	configured := func(by string) *corev1.Node {
		return nodeNamed("mine", func(n *corev1.Node) {
			n.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Name: by}}
		})
	}
	mine, other := nodeNamed("mine"), nodeNamed("other")
	ready := nodeNamed("mine", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning })
	const (
		foreign    = `node "mine" is not allowed to modify node "other"`
		noTaints   = `node "mine" is not allowed to modify taints`
		noOwners   = `node "mine" is not allowed to modify ownerReferences`
		noSource   = `node "mine" is not allowed to update configSource to a new non-nil configSource`
		noSourceAt = `node "mine" is not allowed to create pods with a non-nil configSource`
	)
	for name, test := range map[string]struct {
		request plugintest.Request
		refused string
	}{
		"create":                   {plugintest.Create(mine), ""},
		"create with taints":       {plugintest.Create(tainted("a")), ""},
		"update":                   {plugintest.Update(ready, mine), ""},
		"update status":            {plugintest.Update(ready, mine).On("nodes", "status"), ""},
		"delete":                   {plugintest.Delete(mine), ""},
		"create another":           {plugintest.Create(other), foreign},
		"update another":           {plugintest.Update(other, other), foreign},
		"update another's status":  {plugintest.Update(other, other).On("nodes", "status"), foreign},
		"delete another":           {plugintest.Delete(other), foreign},
		"same taints":              {plugintest.Update(tainted("a"), tainted("a")), ""},
		"add a taint":              {plugintest.Update(tainted("a"), mine), noTaints},
		"change a taint":           {plugintest.Update(tainted("a"), tainted("b")), noTaints},
		"remove a taint":           {plugintest.Update(mine, tainted("a")), noTaints},
		"taint through the status": {plugintest.Update(tainted("a"), mine).On("nodes", "status"), noTaints},
		"same owner":               {plugintest.Update(owned("a"), owned("a")), ""},
		"add an owner":             {plugintest.Update(owned("a"), mine), noOwners},
		"change an owner":          {plugintest.Update(owned("a"), owned("b")), noOwners},
		"remove an owner":          {plugintest.Update(mine, owned("a")), noOwners},
		"create with configSource": {plugintest.Create(configured("a")), noSourceAt},
		"same configSource":        {plugintest.Update(configured("a"), configured("a")), ""},
		"add a configSource":       {plugintest.Update(configured("a"), mine), noSource},
		"change the configSource":  {plugintest.Update(configured("a"), configured("b")), noSource},
		"remove the configSource":  {plugintest.Update(mine, configured("a")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := setup{}.build(t)
			verdict(t, subject.Admit(t, byMine(test.request)), "nodes", test.request.Name, test.refused)
			subject.Admit(t, test.request).Admitted(t) // by somebody else
		})
	}
}

// Upstream: the label cases of Test_nodePlugin_Admit, setAllowedCreateLabels,
// setForbiddenUpdateLabels, and Test_getModifiedLabels.
func TestLabels(t *testing.T) {
	const (
		hostname, zone, kubelet = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "foo.kubelet.kubernetes.io/x"
		restricted              = "node-restriction.kubernetes.io/x"
	)
	all := func(labels ...string) map[string]string {
		m := map[string]string{}
		for _, label := range labels {
			m[label] = "1"
		}
		return m
	}
	with := func(base map[string]string, label, value string) map[string]string {
		m := maps.Clone(base)
		m[label] = value
		return m
	}
	for name, test := range map[string]struct {
		before, after map[string]string // before is nil for a create, unless after is
		refused       string            // the labels
	}{
		"none": {nil, all(), ""},
		"a kubelet's own": {nil,
			all(hostname, zone, kubelet, "node.kubernetes.io/x", "beta.kubernetes.io/os"), ""},
		"somebody's": {nil, all("example.com/x", "plain", "kubernetes.io.example.com/x"), ""},
		"for administrators": {nil, all(restricted, "a.node-restriction.kubernetes.io/x"),
			"a.node-restriction.kubernetes.io/x, " + restricted},
		"of Kubernetes, unknown": {nil, all("kubernetes.io/x", "a.kubernetes.io/x", "k8s.io/x", "a.k8s.io/x"),
			"a.k8s.io/x, a.kubernetes.io/x, k8s.io/x, kubernetes.io/x"},
		"some of them": {nil, all(hostname, restricted, "plain"), restricted},
		"a role": {nil, all("node-role.kubernetes.io/control-plane"),
			"node-role.kubernetes.io/control-plane"},
		"update: same":                 {all(restricted, hostname), all(restricted, hostname), ""},
		"update: others change":        {all(restricted, hostname), all(restricted, zone, "plain"), ""},
		"update: add":                  {all(), all(restricted), restricted},
		"update: add with empty value": {all(), with(all(), restricted, ""), restricted},
		"update: remove":               {all(restricted), all(), restricted},
		"update: change":               {all(restricted), with(all(), restricted, "2"), restricted},
		"update: change to empty":      {all(restricted), with(all(), restricted, ""), restricted},
		"update: swap":                 {all(restricted), all("kubernetes.io/x"), "kubernetes.io/x, " + restricted},
		"update: remove all":           {all("a.k8s.io/x"), nil, "a.k8s.io/x"},
	} {
		t.Run(name, func(t *testing.T) {
			labelled := func(labels map[string]string) *corev1.Node {
				return nodeNamed("mine", func(n *corev1.Node) { n.Labels = labels })
			}
			request, refused := plugintest.Create(labelled(test.after)),
				`node "mine" is not allowed to set the following labels: `
			if test.before != nil {
				request, refused = plugintest.Update(labelled(test.after), labelled(test.before)),
					"is not allowed to modify labels: "
			}
			if test.refused == "" {
				refused = ""
			}
			verdict(t, setup{}.build(t).Admit(t, byMine(request)), "nodes", "mine", refused+test.refused)
		})
	}
}

// Upstream: "disallowed create lease in namespace other than kube-node-lease" and so on in
// Test_nodePlugin_Admit.
func TestLeases(t *testing.T) {
	const elsewhere = `can only access leases in the "kube-node-lease" system namespace`
	const foreign = "can only access node lease with the same name as the requesting node"
	for name, test := range map[string]struct{ namespace, name, refused string }{
		"own":                   {"kube-node-lease", "mine", ""},
		"another node's":        {"kube-node-lease", "other", foreign},
		"generated name":        {"kube-node-lease", "", foreign},
		"own, elsewhere":        {"kube-system", "mine", elsewhere},
		"a leader's, elsewhere": {"kube-system", "kube-scheduler", elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.name}}
			ofName(t, lease, "leases.coordination.k8s.io", test.name, test.refused)
		})
	}
}

// Upstream: "disallowed create another node's CSINode" and so on in Test_nodePlugin_Admit.
func TestCSINodes(t *testing.T) {
	const foreign = "can only access CSINode with the same name as the requesting node"
	for name, test := range map[string]struct{ name, refused string }{
		"own": {"mine", ""}, "another node's": {"other", foreign}, "generated name": {"", foreign},
	} {
		t.Run(name, func(t *testing.T) {
			ofName(t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: test.name}}, "csinodes.storage.k8s.io",
				test.name, test.refused)
		})
	}
}

// Upstream: TestAdmitCSINodeStatus.
func TestCSINodeStatus(t *testing.T) {
	const refusal = `csinodes.storage.k8s.io "mine" is forbidden: `
	named := func(name string, drivers ...string) *storagev1.CSINode {
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, driver := range drivers {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: "mine"})
		}
		return n
	}
	healthy := named("mine", "a")
	healthy.Annotations = map[string]string{"a": "b"}
	update := plugintest.Update(healthy, named("mine", "a")).On("csinodes", "status")
	wrong, wrongOld := update, update
	wrong.Object, wrongOld.OldObject = &corev1.Pod{}, &corev1.Pod{}
	for name, test := range map[string]struct {
		request plugintest.Request
		off     bool
		refused string
	}{
		"own":                             {update, false, ""},
		"gate off":                        {update, true, "CSIVolumeHealth feature gate is disabled"},
		"the gate is for the status only": {plugintest.Update(named("mine", "a"), named("mine")), true, ""},
		"another node's": {plugintest.Update(named("other"), named("other")).On("csinodes", "status"), false,
			"can only access CSINode with the same name as the requesting node"},
		"a driver more": {plugintest.Update(named("mine", "a"), named("mine")).On("csinodes", "status"), false,
			`node "mine" is not allowed to modify CSINode spec via status`},
		"create":             {plugintest.Create(named("mine")).On("csinodes", "status"), false, `unexpected operation "CREATE"`},
		"another object":     {wrong, false, "unexpected type *v1.Pod"},
		"another old object": {wrongOld, false, "unexpected type *v1.Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			var s setup
			if !test.off {
				s.on = []featuregate.Feature{volumeHealth}
			}
			result := s.build(t).Admit(t, byMine(test.request))
			if test.refused == "" {
				result.Admitted(t)
				return
			}
			result.Refused(t, 403, strings.Replace(refusal, "mine", test.request.Name, 1)+test.refused)
		})
	}
}

// ofName tests what is a node's by its name, in every operation.
func ofName(t *testing.T, object runtime.Object, resource, name, refused string) {
	t.Helper()
	if name == "" {
		name = "Unknown"
	}
	subject := setup{}.build(t)
	for _, request := range []plugintest.Request{plugintest.Create(object), plugintest.Update(object, object),
		plugintest.Delete(object)} {
		verdict(t, subject.Admit(t, byMine(request)), resource, name, refused)
	}
}

// Upstream: TestAdmitResourceSlice.
func TestResourceSlices(t *testing.T) {
	const noCreate = "can only create ResourceSlice with the same NodeName as the requesting node"
	const noDelete = "can only delete ResourceSlice with the same NodeName as the requesting node"
	const resource = "resourceslices.resource.k8s.io"
	named := metav1.ObjectMeta{Name: "s"}
	of := func(node *string) map[string]runtime.Object {
		slices := map[string]runtime.Object{
			"v1": &resourcev1.ResourceSlice{ObjectMeta: named, Spec: resourcev1.ResourceSliceSpec{NodeName: node}},
			"v1beta2": &resourcev1beta2.ResourceSlice{ObjectMeta: named,
				Spec: resourcev1beta2.ResourceSliceSpec{NodeName: node}},
			"v1beta1": &resourcev1beta1.ResourceSlice{ObjectMeta: named},
		}
		if node != nil {
			slices["v1beta1"].(*resourcev1beta1.ResourceSlice).Spec.NodeName = *node
		}
		return slices
	}
	for name, test := range map[string]struct {
		node *string
		ok   bool
	}{
		"own": {new("mine"), true}, "another node's": {new("other"), false}, "no single node's": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			subject := setup{}.build(t)
			for version, slice := range of(test.node) {
				t.Log(version)
				create, remove := noCreate, noDelete
				if test.ok {
					create, remove = "", ""
				}
				verdict(t, subject.Admit(t, byMine(plugintest.Create(slice))), resource, "s", create)
				verdict(t, subject.Admit(t, byMine(plugintest.Delete(slice))), resource, "s", remove)
				verdict(t, subject.Admit(t, byMine(plugintest.Update(slice, slice))), resource, "s", "")
			}
		})
	}
}

// What a request for a resource carries is of the resource's kind. If it ever isn't it is refused,
// not believed.
func TestUnexpectedObjects(t *testing.T) {
	subject := setup{}.build(t)
	for _, test := range []struct {
		group, resource, subresource string
		operations                   []admission.Operation
	}{
		{"", "pods", "", []admission.Operation{admission.Create, admission.Delete}},
		{"", "pods", "status", []admission.Operation{admission.Update}},
		{"", "nodes", "", []admission.Operation{admission.Create, admission.Update}},
		{"", "persistentvolumeclaims", "status", []admission.Operation{admission.Update}},
		{"", "serviceaccounts", "token", []admission.Operation{admission.Create}},
		{"resource.k8s.io", "resourceslices", "", []admission.Operation{admission.Create, admission.Delete}},
		{"certificates.k8s.io", "certificatesigningrequests", "", []admission.Operation{admission.Create}},
		{"certificates.k8s.io", "podcertificaterequests", "", []admission.Operation{admission.Create}},
	} {
		for _, operation := range test.operations {
			request := plugintest.Update(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, &corev1.Secret{})
			request.Operation, request.Resource.Group = operation, test.group
			result := subject.Admit(t, byMine(request.On(test.resource, test.subresource)))
			resource := test.resource
			if test.group != "" {
				resource += "." + test.group
			}
			result.Refused(t, 403, resource+` "mine" is forbidden: unexpected type *v1.Secret`)
		}
	}
}
