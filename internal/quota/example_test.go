// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

func ExampleChange_Admit() {
	pods := schema.GroupResource{Resource: "pods"}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name:      "c",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")}},
	}}}}
	compute := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "compute"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.cpu": resource.MustParse("1"),
			"pods": resource.MustParse("10")}},
		Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{"requests.cpu": resource.MustParse("200m"),
			"pods": resource.MustParse("1")}},
	}

	cost, err := quota.CostOf(pods, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	create := quota.Change{Resource: pods, New: cost}
	moved, err := create.Admit([]*corev1.ResourceQuota{compute}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(moved[0].Status.Used.Pods(), "pods,", moved[0].Status.Used.Name("requests.cpu", resource.DecimalSI),
		"CPU")

	_, err = create.Admit(moved, nil)
	fmt.Println(err)
	// Output:
	// 2 pods, 700m CPU
	// exceeded quota: compute, requested: requests.cpu=500m, used: requests.cpu=700m, limited: requests.cpu=1
}
