// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

const (
	gpus  corev1.ResourceName = "requests.example.com/gpu"
	byGPU corev1.ResourceName = "gpuclass.deviceclass.resource.k8s.io/devices"
)

// devices is a claim for n devices of gpuclass.
func devices(name string, n int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpuclass", Count: n,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount},
		}}}},
	}
}

// gpuQuota makes a namespace whose quota bounds GPUs by both names, and the class.
func gpuQuota(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	name := "example.com/gpu"
	if _, err := client.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpuclass"},
		Spec:       resourcev1.DeviceClassSpec{ExtendedResourceName: &name},
	}, createOptions); err != nil {
		t.Fatal(err)
	}
	namespaceWith(t, client, namespace, 0)
	if _, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{gpus: resource.MustParse("2"),
			byGPU: resource.MustParse("9")}},
	}, createOptions); err != nil {
		t.Fatal(err)
	}
}

func used(t *testing.T, client kubernetes.Interface, namespace string, name corev1.ResourceName) string {
	t.Helper()
	q, err := client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	amount := q.Status.Used[name]
	return amount.String()
}

// Claims for devices of a class that is an extended resource count by both names. The claim that
// the scheduler makes for a pod is not counted beside the pod. The controller, which counts all the
// time, agrees.
func TestDevices(t *testing.T) {
	client := clientOf(gatehousetest.Start(t,
		gatehousetest.WithConfig(func(c *server.Config) { c.Controllers.QuotaSyncPeriod = 100 * time.Millisecond })))
	const namespace = "devices"
	gpuQuota(t, client, namespace)
	claims := client.ResourceV1().ResourceClaims(namespace)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	wantUsed := func(when, extended, class string) {
		t.Helper()
		if e, c := used(t, client, namespace, gpus), used(t, client, namespace, byGPU); e != extended || c != class {
			t.Errorf("%s: used %s by the extended resource, want %s; %s by the class, want %s", when, e, extended, c,
				class)
		}
	}
	refused := func(err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(),
			`resourceclaims.resource.k8s.io "four" is forbidden: exceeded quota: q, requested: `+
				`requests.example.com/gpu=4, used: requests.example.com/gpu=0, limited: requests.example.com/gpu=2`) {
			t.Errorf("a claim for 4 of 2: %v", err)
		}
	}
	for _, options := range []metav1.CreateOptions{createOptions, dryRun} {
		_, err := claims.Create(t.Context(), devices("four", 4), options)
		refused(err)
	}
	wantUsed("a refused claim", "0", "0")
	if _, err := claims.Create(t.Context(), devices("two", 2), createOptions); err != nil {
		t.Fatal(err)
	}
	wantUsed("a claim for 2", "2", "2")
	if err := claims.Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantUsed("no claim", "0", "0")

	p := pod("p")
	for _, list := range []corev1.ResourceList{p.Spec.Containers[0].Resources.Requests,
		p.Spec.Containers[0].Resources.Limits} {
		list["example.com/gpu"] = resource.MustParse("2")
	}
	created, err := client.CoreV1().Pods(namespace).Create(t.Context(), p, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	wantUsed("a pod", "2", "0")
	yes := true
	made := devices("p-gpu", 2)
	made.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: created.UID,
		Controller: &yes}}
	for _, options := range []metav1.CreateOptions{dryRun, createOptions} {
		if _, err := claims.Create(t.Context(), made, options); err != nil {
			t.Fatalf("the scheduler's claim: %v", err)
		}
	}
	wantUsed("a pod and its claim", "2", "2")
	again := made.DeepCopy()
	again.Name = "p-gpu-again"
	if _, err := claims.Create(t.Context(), again, createOptions); !exceeded(err) {
		t.Errorf("a second claim for the pod: %v", err)
	}

	// A class that changes.
	class, err := client.ResourceV1().DeviceClasses().Get(t.Context(), "gpuclass", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	class.Spec.ExtendedResourceName = nil
	if class, err = client.ResourceV1().DeviceClasses().Update(t.Context(), class,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Create(t.Context(), devices("four", 4), createOptions); err != nil {
		t.Errorf("a claim for a class that is no extended resource: %v", err)
	}
	wantUsed("a class that is no extended resource", "2", "6")
	name := "example.com/gpu"
	class.Spec.ExtendedResourceName = &name
	if _, err := client.ResourceV1().DeviceClasses().Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the claim to count", func() bool { return used(t, client, namespace, gpus) == "6" })
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the pod's claim to go with it", func() bool {
		return used(t, client, namespace, gpus) == "4" && used(t, client, namespace, byGPU) == "4"
	})
}

// With the gate off, which 1.37 no longer allows, claims count by their class only.
func TestDevicesWithoutTheGate(t *testing.T) {
	p := servertest.NewProcess(t, "--emulated-version=1.36", "--feature-gates=DRAExtendedResource=false")
	p.Start(t)
	client := p.Connect(t).Client
	const namespace = "classes"
	gpuQuota(t, client, namespace)
	if _, err := client.ResourceV1().ResourceClaims(namespace).Create(t.Context(), devices("four", 4),
		createOptions); err != nil {
		t.Fatal(err)
	}
	if extended, class := used(t, client, namespace, gpus), used(t, client, namespace, byGPU); extended != "0" ||
		class != "4" {
		t.Errorf("used %s by the extended resource, %s by the class", extended, class)
	}
}
