package noderestriction

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/chain/chaintest"
)

// Upstream: TestAdmitPVCStatus. What is allowed there by a feature gate is allowed always: the
// gate, RecoverVolumeExpansionFailure, is locked.
func TestClaims(t *testing.T) {
	claim := func(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
			ResourceVersion: "1"}}
		c.Spec.VolumeName, c.Status.Phase = "v", corev1.ClaimBound
		for _, change := range changes {
			change(c)
		}
		return c
	}
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	for name, test := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		ok     bool
	}{
		"nothing":  {func(*corev1.PersistentVolumeClaim) {}, true},
		"capacity": {func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage }, true},
		"conditions": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending}}
		}, true},
		"allocated": {func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = storage }, true},
		"allocated status": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInProgress}
		}, true},
		"unconditional": {func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "" }, true},
		"managed fields": {func(c *corev1.PersistentVolumeClaim) {
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		}, true},
		"phase": {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, false},
		"access modes": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, false},
		"labels":     {func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} }, false},
		"finalizers": {func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/a"} }, false},
		"spec":       {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := setup{}.build(t)
			result := plugin.Admit(t,
				byMine(chaintest.Update(claim(test.change), claim()).On("persistentvolumeclaims", "status")))
			if test.ok {
				result.Admitted(t)
				return
			}
			const want = `persistentvolumeclaims "c" is forbidden: node "mine" is not allowed to update fields ` +
				`other than status.quantity and status.conditions: `
			if result.Code() != 403 || !strings.HasPrefix(result.Message(), want) {
				t.Errorf("got %d %s, want 403 %s…", result.Code(), result.Message(), want)
			}
		})
	}
	plugin := setup{}.build(t)
	for _, request := range []chaintest.Request{chaintest.Create(claim()), chaintest.Update(claim(), claim()),
		chaintest.Delete(claim())} {
		verdict(t, plugin.Admit(t, byMine(request)), "persistentvolumeclaims", "c", "may only update PVC status")
	}
	for _, request := range []chaintest.Request{chaintest.Create(claim()), chaintest.Delete(claim())} {
		verdict(t, plugin.Admit(t, byMine(request.On("persistentvolumeclaims", "status"))), "persistentvolumeclaims",
			"c", fmt.Sprintf("unexpected operation %q", request.Operation))
	}
}
