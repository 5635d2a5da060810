// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// Feature gates are a process's, so this server has one of its own.
func TestPodGroupsHavePriorities(t *testing.T) {
	t.Parallel()
	process := servertest.NewProcess(t,
		"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha3=true")
	process.Start(t)
	c := process.Connect(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	if _, err := c.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(class string) (*schedulingv1alpha3.PodGroup, error) {
		return c.Client.SchedulingV1alpha3().PodGroups("default").Create(t.Context(), &schedulingv1alpha3.PodGroup{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"},
			Spec: schedulingv1alpha3.PodGroupSpec{
				SchedulingPolicy: schedulingv1alpha3.PodGroupSchedulingPolicy{
					Basic: &schedulingv1alpha3.BasicSchedulingPolicy{},
				},
				PriorityClassName: class,
			}}, metav1.CreateOptions{})
	}
	for class, want := range map[string]int32{"high": 1000, "": 0} {
		group, err := create(class)
		if err != nil || group.Spec.Priority == nil || *group.Spec.Priority != want {
			t.Errorf("class %q: got %v, %v", class, group.Spec, err)
		}
	}
	const refused = "is forbidden: no PriorityClass with name low was found"
	if _, err := create("low"); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("got %v", err)
	}
}
