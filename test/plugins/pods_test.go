package plugins_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	_, err = u.patch(created, `metadata: {labels: {l: "1"}}`)
	u.want(err, "")
	u.eventually(`RuntimeClass "vm" not found`, func() error {
		_, err := u.create(pod("runtimeClassName: vm"))
		return err
	})
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
	u.eventually(`pod resize is only supported on linux nodes, node "node-a" is "windows"`,
		func() error { return resize("containers", "d", "1500m") })
	// Anything else of the pod can change.
	_, err := u.patch(p, `metadata: {labels: {l: "2"}}`)
	u.want(err, "")
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
