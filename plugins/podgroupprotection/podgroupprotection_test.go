// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroupprotection

import (
	"slices"
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin/plugintest"
)

func group(finalizers ...string) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g",
		Finalizers: finalizers}}
}

// Upstream: TestPodGroupProtectionAdmit in
// plugin/pkg/admission/scheduling/podgroupprotection/admission_test.go.
func TestFinalizer(t *testing.T) {
	const ours = "scheduling.k8s.io/podgroup-protection"
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		given *schedulingv1beta1.PodGroup
		want  []string
	}{
		"none":          {group(), []string{ours}},
		"another":       {group("example.com/f"), []string{"example.com/f", ours}},
		"there already": {group(ours, "example.com/f"), []string{ours, "example.com/f"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, given := range []runtime.Object{test.given,
				&schedulingv1alpha3.PodGroup{ObjectMeta: *test.given.ObjectMeta.DeepCopy()}} {
				got := subject.Admit(t, plugintest.Create(given)).Admitted(t).Object.(metav1.Object).GetFinalizers()
				if !slices.Equal(got, test.want) {
					t.Errorf("a %T has %q", given, got)
				}
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"update": plugintest.Update(group(), group()),
		"status": plugintest.Create(group()).On("podgroups", "status"),
		"delete": plugintest.Delete(group()),
		"others": plugintest.Create(group()).On("workloads", ""),
	} {
		if subject.Admit(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := plugintest.Create(group())
	wrong.Object = &metav1.Status{}
	subject.Admit(t, wrong).Refused(t, 400, "PodGroupProtection: the object of a request for podgroups is a *v1.Status")
}
