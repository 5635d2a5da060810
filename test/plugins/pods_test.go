// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

const (
	vm = `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: vm,
overhead: {podFixed: {cpu: 100m}}, scheduling: {nodeSelector: {vm: "yes"}, tolerations: [{key: vm, operator: Exists}]}}`

	node = `{apiVersion: v1, kind: Node, metadata: {name: node-a,
labels: {topology.kubernetes.io/zone: a, topology.kubernetes.io/region: b, topology.kubernetes.io/rack: c}},
status: {allocatable: {cpu: "2", memory: 1Gi}}}`

	onNode = `{apiVersion: v1, kind: Pod, metadata: {name: on-node, labels: {l: "1"}},
spec: {nodeName: node-a, initContainers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}],
containers: [{name: d, image: i, resources: {requests: {cpu: "1"}}}]}}`
)

// pod is a pod with one container and more in its spec.
func pod(spec string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {generateName: p-, labels: {topology.kubernetes.io/zone: mine}},
spec: {containers: [{name: c, image: i}], ` + spec + `}}`
}

// field is a field of an object, nil where it isn't there.
func field(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}

func TestRuntimeClass(t *testing.T) {
	t.Parallel()
	u := admin(t, shared())
	_, err := u.create(pod("runtimeClassName: vm"))
	u.want(err, `is forbidden: pod rejected: RuntimeClass "vm" not found`)
	class := u.must(vm)
	created := u.must(pod("runtimeClassName: vm")) // at once: what the cache doesn't have is read
	if cpu := field(created, "spec", "overhead", "cpu"); cpu != "100m" {
		t.Errorf("overhead %v", cpu)
	}
	if value := field(created, "spec", "nodeSelector", "vm"); value != "yes" {
		t.Errorf("node selector %v", value)
	}
	if tolerations := field(created, "spec", "tolerations").([]any); len(tolerations) != 3 {
		t.Errorf("tolerations %v", tolerations)
	}
	for spec, refusal := range map[string]string{
		"runtimeClassName: vm, overhead: {cpu: 100m}":    "",
		"runtimeClassName: vm, overhead: {cpu: 1m}":      "doesn't match RuntimeClass's defined Overhead",
		`runtimeClassName: vm, nodeSelector: {vm: "no"}`: "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes",
		"overhead: {cpu: 1m}":                            "Pod Overhead set without corresponding RuntimeClass defined",
	} {
		_, err := u.create(pod(spec))
		u.want(err, refusal)
	}
	// A pod that is there already isn't looked at again.
	if err := u.of(class).Delete(t.Context(), "vm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	u.eventually(`RuntimeClass "vm" not found`, func() error {
		_, err := u.create(pod("runtimeClassName: vm"))
		return err
	})
	_, err = u.patch(created, `metadata: {labels: {l: "1"}}`)
	u.want(err, "")
	_, err = u.patch(created, "status: {message: m}", "status")
	u.want(err, "")
	_, err = u.patch(created, "spec: {ephemeralContainers: [{name: e, image: i}]}", "ephemeralcontainers")
	u.want(err, "")
	// A class that says nothing gives nothing, and allows nothing.
	u.must(`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: plain}, handler: plain}`)
	created = u.must(pod("runtimeClassName: plain"))
	if field(created, "spec", "overhead") != nil || field(created, "spec", "nodeSelector") != nil ||
		len(field(created, "spec", "tolerations").([]any)) != 2 {
		t.Errorf("of a class that says nothing a pod got %v", created.Object["spec"])
	}
	_, err = u.create(pod("runtimeClassName: plain, overhead: {cpu: 1m}"))
	u.want(err, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
}

func TestPodTopologyLabels(t *testing.T) {
	t.Parallel()
	u := admin(t, shared())
	u.must(`{apiVersion: v1, kind: Node, metadata: {name: labeled, labels: {topology.kubernetes.io/zone: a,
topology.kubernetes.io/region: b, topology.kubernetes.io/rack: c}}}`)
	labels := func(object *unstructured.Unstructured) string {
		has := object.GetLabels()
		return fmt.Sprintln(has["topology.kubernetes.io/zone"], has["topology.kubernetes.io/region"], len(has))
	}
	servertest.Eventually(t, "a pod that is created on the node to have its labels", func() bool {
		return labels(u.must(pod("nodeName: labeled"))) == "a b 2\n"
	})
	created := u.must(pod(""))
	if got := labels(created); got != "mine  1\n" {
		t.Errorf("before it is bound a pod has %s", got)
	}
	if err := shared().Client.CoreV1().Pods(u.namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: created.GetName()},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "labeled"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound, err := u.of(created).Get(t.Context(), created.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := labels(bound); got != "a b 2\n" {
		t.Errorf("a pod that is bound has %s", got)
	}
	// An update may change them, and a node that isn't there has none.
	changed, err := u.patch(bound, `metadata: {labels: {topology.kubernetes.io/zone: other}}`)
	u.want(err, "")
	if got := labels(changed); got != "other b 2\n" {
		t.Errorf("after an update a pod has %s", got)
	}
	if got := labels(u.must(pod("nodeName: nowhere"))); got != "mine  1\n" {
		t.Errorf("on a node that isn't there a pod has %s", got)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	u := admin(t, shared())
	n, p := u.must(node), u.must(onNode)
	resize := func(list, name, cpu string) error {
		_, err := u.patch(p, `spec: {`+list+`: [{name: `+name+`, resources: {requests: {cpu: "`+cpu+`"}}}]}`, "resize")
		return err
	}
	u.eventually("cpu, requested: 3000, allocatable: 2000", func() error { return resize("containers", "d", "3") })
	u.want(resize("containers", "d", "2"), "")
	u.want(resize("initContainers", "c", "2"),
		`pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node "node-a"`)
	if _, err := u.patch(n, `status: {declaredFeatures: [InPlacePodVerticalScalingInitContainers]}`,
		"status"); err != nil {
		t.Fatal(err)
	}
	u.eventually("", func() error { return resize("initContainers", "c", "2") })
	if _, err := u.patch(n, `metadata: {labels: {kubernetes.io/os: windows}}`); err != nil {
		t.Fatal(err)
	}
	cpu := 1500
	u.eventually(`pod resize is only supported on linux nodes, node "node-a" is "windows"`, func() error {
		cpu-- // or it would be no resize, once one has passed
		return resize("containers", "d", fmt.Sprintf("%dm", cpu))
	})
	// Anything else of the pod can change.
	for _, change := range []string{`metadata: {labels: {l: "2"}}`, "spec: {containers: [{name: d, image: j}]}"} {
		_, err := u.patch(p, change)
		u.want(err, "")
	}
}

// What a node can do matters to nobody who has none, and one that isn't there can do nothing.
func TestResizeElsewhere(t *testing.T) {
	t.Parallel()
	u := admin(t, shared())
	u.must(`{apiVersion: v1, kind: Node, metadata: {name: small}, status: {allocatable: {cpu: "1", memory: 1Gi}}}`)
	const more = `spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}`
	const asAWhole = `spec: {resources: {requests: {cpu: "1"}}}`
	for _, test := range []struct{ spec, change, refusal string }{
		{"", more, ""},
		{"nodeName: nowhere", more, `node "nowhere" not found`},
		{"nodeName: small", more, "cpu, requested: 3000, allocatable: 1000"},
		{"resources: {requests: {cpu: 500m}}", asAWhole, ""},
		{"nodeName: nowhere, resources: {requests: {cpu: 500m}}", asAWhole, `node "nowhere" not found`},
		{"nodeName: small, resources: {requests: {cpu: 500m}}", asAWhole, "pod update requires features " +
			`InPlacePodLevelResourcesVerticalScaling which are not available on node "small"`},
	} {
		created := u.must(`{apiVersion: v1, kind: Pod, metadata: {generateName: p-}, spec: {containers: [
			{name: c, image: i, resources: {requests: {cpu: 100m}}}], ` + test.spec + `}}`)
		u.eventually(test.refusal, func() error {
			_, err := u.patch(created, test.change, "resize")
			return err
		})
	}
}

func TestDenyServiceExternalIPs(t *testing.T) {
	t.Parallel()
	u := admin(t, shared())
	_, err := u.create(`{apiVersion: v1, kind: Service, metadata: {name: s},
spec: {ports: [{port: 80}], externalIPs: [192.0.2.1]}}`)
	u.want(err, `services "s" is forbidden: Use of external IPs is denied by admission control`)
	service := u.must(`{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}]}}`)
	_, err = u.patch(service, `spec: {externalIPs: [192.0.2.1]}`)
	u.want(err, "Use of external IPs is denied by admission control")
	_, err = u.patch(service, `status: {conditions: [{type: T, status: "True", reason: R, message: M,
lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, "status")
	u.want(err, "")
	_, err = u.patch(service, `metadata: {labels: {l: "1"}}`)
	u.want(err, "")
}

// What Services have already they may keep, and give away.
func TestExternalIPsFromBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := servertest.Connect(gatehousetest.StartIn(t, dir))
	u := admin(t, c)
	service := u.must(`{apiVersion: v1, kind: Service, metadata: {name: s},
spec: {ports: [{port: 80}], externalIPs: [192.0.2.1, 192.0.2.2]}}`)
	c.Stop()
	u.Interface = servertest.Connect(gatehousetest.StartIn(t, dir,
		gatehousetest.WithPlugins("DenyServiceExternalIPs"))).Dynamic
	for _, step := range []struct{ change, refusal string }{
		{`metadata: {labels: {l: "1"}}`, ""},
		{"spec: {externalIPs: [192.0.2.2, 192.0.2.1]}", ""},
		{"spec: {externalIPs: [192.0.2.1]}", ""},
		{"spec: {externalIPs: [192.0.2.1, 192.0.2.2]}", "Use of external IPs is denied by admission control"},
		{"spec: {externalIPs: null}", ""},
	} {
		_, err := u.patch(service, step.change)
		u.want(err, step.refusal)
	}
}
