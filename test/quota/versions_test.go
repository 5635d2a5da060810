// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// What is written in an old version, or in the group that a kind had once, counts as what is
// stored, dry runs included.
func TestVersions(t *testing.T) {
	client := clientOf(gatehousetest.Start(t,
		servertest.RuntimeConfig("extensions/v1beta1=true", "resource.k8s.io/v1beta2=true")))
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for namespace, test := range map[string]struct {
		counted corev1.ResourceName
		limit   string // room for one
		create  func(name string, options metav1.CreateOptions) error
	}{
		"workloads": {"count/deployments.apps", "1", func(name string, options metav1.CreateOptions) error {
			labels := map[string]string{"app": name}
			d := &extensionsv1beta1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: extensionsv1beta1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("").Spec},
				}}
			_, err := client.ExtensionsV1beta1().Deployments("workloads").Create(t.Context(), d, options)
			return err
		}},
		"devices": {"gold.deviceclass.resource.k8s.io/devices", "3",
			func(name string, options metav1.CreateOptions) error {
				exactly := &resourcev1beta2.ExactDeviceRequest{DeviceClassName: "gold",
					AllocationMode: resourcev1beta2.DeviceAllocationModeExactCount, Count: 2}
				c := &resourcev1beta2.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec: resourcev1beta2.ResourceClaimSpec{
						Devices: resourcev1beta2.DeviceClaim{Requests: []resourcev1beta2.DeviceRequest{{Name: "r",
							Exactly: exactly}}},
					}}
				_, err := client.ResourceV1beta2().ResourceClaims("devices").Create(t.Context(), c, options)
				return err
			}},
	} {
		t.Run(namespace, func(t *testing.T) {
			namespaceWith(t, client, namespace, 0)
			if err := test.create("unlimited", dry); err != nil {
				t.Errorf("dry run without a quota: %v", err)
			}
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{test.counted: resource.MustParse(test.limit)}}}
			if _, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), q, createOptions); err != nil {
				t.Fatal(err)
			}
			if err := test.create("one", dry); err != nil {
				t.Errorf("dry run with room: %v", err)
			}
			if err := test.create("one", createOptions); err != nil {
				t.Errorf("with room: %v", err)
			}
			if err := test.create("two", dry); !exceeded(err) {
				t.Errorf("dry run without room: %v", err)
			}
			if err := test.create("two", createOptions); !exceeded(err) {
				t.Errorf("without room: %v", err)
			}
		})
	}
}
