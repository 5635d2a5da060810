// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// Upstream: TestAdmitPVCStatus.
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
		// ok is with the feature gate RecoverVolumeExpansionFailure on, okWithout with it off.
		ok, okWithout bool
	}{
		"nothing":  {func(*corev1.PersistentVolumeClaim) {}, true, true},
		"capacity": {func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage }, true, true},
		"conditions": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
				{Type: corev1.PersistentVolumeClaimFileSystemResizePending},
			}
		}, true, true},
		"allocated": {func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = storage }, true, false},
		"allocated status": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
				corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizeInProgress,
			}
		}, true, false},
		"unconditional": {func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "" }, true, true},
		"managed fields": {func(c *corev1.PersistentVolumeClaim) {
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		}, true, true},
		"phase": {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }, false, false},
		"access modes": {func(c *corev1.PersistentVolumeClaim) {
			c.Status.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, false, false},
		"labels": {func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} }, false, false},
		"finalizers": {func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/a"} }, false,
			false},
		"spec": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "other" }, false, false},
	} {
		for _, way := range []struct {
			setup
			ok bool
		}{{setup{}, test.ok}, {setup{off: []featuregate.Feature{expansionRecovery}}, test.okWithout}} {
			t.Run(fmt.Sprint(name, way.off), func(t *testing.T) {
				subject := way.build(t)
				result := subject.Admit(t,
					byMine(plugintest.Update(claim(test.change), claim()).On("persistentvolumeclaims", "status")))
				if way.ok {
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
	}
	subject := setup{}.build(t)
	for _, request := range []plugintest.Request{plugintest.Create(claim()), plugintest.Update(claim(), claim()),
		plugintest.Delete(claim())} {
		verdict(t, subject.Admit(t, byMine(request)), "persistentvolumeclaims", "c", "may only update PVC status")
	}
	for _, request := range []plugintest.Request{plugintest.Create(claim()), plugintest.Delete(claim())} {
		verdict(t, subject.Admit(t, byMine(request.On("persistentvolumeclaims", "status"))), "persistentvolumeclaims",
			"c", fmt.Sprintf("unexpected operation %q", request.Operation))
	}
}
