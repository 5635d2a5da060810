// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// kindsOfGroups make each kind of a group of pods in each version, as pod makes a pod, and say what one
// was made of.
var kindsOfGroups = map[string]struct {
	resource, words string
	make            func(text string) runtime.Object
	says            func(runtime.Object) string
}{
	"v1beta1 PodGroup": {"podgroups", "pod group", func(text string) runtime.Object {
		s := pod(text).Spec
		return &schedulingv1beta1.PodGroup{ObjectMeta: groupMeta, Spec: schedulingv1beta1.PodGroupSpec{
			PriorityClassName: s.PriorityClassName, Priority: s.Priority,
			PreemptionPolicy: (*schedulingv1beta1.PreemptionPolicy)(s.PreemptionPolicy)}}
	}, func(object runtime.Object) string {
		s := object.(*schedulingv1beta1.PodGroup).Spec
		return saysOf(s.PriorityClassName, s.Priority, (*corev1.PreemptionPolicy)(s.PreemptionPolicy))
	}},
	"v1alpha3 PodGroup": {"podgroups", "pod group", func(text string) runtime.Object {
		s := pod(text).Spec
		return &schedulingv1alpha3.PodGroup{ObjectMeta: groupMeta, Spec: schedulingv1alpha3.PodGroupSpec{
			PriorityClassName: s.PriorityClassName, Priority: s.Priority,
			PreemptionPolicy: (*schedulingv1alpha3.PreemptionPolicy)(s.PreemptionPolicy)}}
	}, func(object runtime.Object) string {
		s := object.(*schedulingv1alpha3.PodGroup).Spec
		return saysOf(s.PriorityClassName, s.Priority, (*corev1.PreemptionPolicy)(s.PreemptionPolicy))
	}},
	"v1alpha3 CompositePodGroup": {"compositepodgroups", "composite pod group", func(text string) runtime.Object {
		s := pod(text).Spec
		return &schedulingv1alpha3.CompositePodGroup{ObjectMeta: groupMeta, Spec: schedulingv1alpha3.CompositePodGroupSpec{
			PriorityClassName: s.PriorityClassName, Priority: s.Priority,
			PreemptionPolicy: (*schedulingv1alpha3.PreemptionPolicy)(s.PreemptionPolicy)}}
	}, func(object runtime.Object) string {
		s := object.(*schedulingv1alpha3.CompositePodGroup).Spec
		return saysOf(s.PriorityClassName, s.Priority, (*corev1.PreemptionPolicy)(s.PreemptionPolicy))
	}},
}

var groupMeta = metav1.ObjectMeta{Namespace: "ns", Name: "g"}

func saysOf(class string, value *int32, policy *corev1.PreemptionPolicy) string {
	return says(&corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class, Priority: value, PreemptionPolicy: policy}})
}

// The cases of TestAdmitPodGroup and TestAdmitCompositePodGroup in upstream's admission_test.go, and some
// more.
func TestGroups(t *testing.T) {
	// In refusals, KIND is the kind. The gates are on unless off names them.
	const (
		otherValue = "priority set in the KIND (7) must match the priority computed (1000) based on the priority class " +
			"set in the spec"
		otherPolicy = "the string value of PreemptionPolicy (Never) must not be provided in KIND spec; priority " +
			"admission controller computed PreemptLowerPriority from the given PriorityClass name"
		wrongPolicy = "preemptionPolicy set in the PriorityClass object (Often) must match one of the allowed values of " +
			"PreemptionPolicy type in KIND"
	)
	for name, test := range map[string]struct {
		class, group string
		off          featuregate.Feature
		want         string
		refused      string
	}{
		"with a class":                     {"a=1000 Never", "a", "", "a 1000 Never", ""},
		"without one":                      {"a=1000 default", "", "", "a 1000 -", ""},
		"without one, there is no default": {"a=1000", "", "", "- 0 PreemptLowerPriority", ""},
		"the class's number":               {"a=1000", "a 1000", "", "a 1000 -", ""},
		"another number":                   {"a=1000", "a 7", "", "", otherValue},
		"a number without a class": {"a=1000", "- 7", "", "",
			strings.Replace(otherValue, "1000", "0", 1)},
		"no such class":                        {"a=1000", "b", "", "", "no PriorityClass with name b was found"},
		"the class's policy":                   {"a=1000 Never", "a - Never", "", "a 1000 Never", ""},
		"another policy":                       {"a=1000 PreemptLowerPriority", "a - Never", "", "", otherPolicy},
		"a policy, where the class has none":   {"a=1000", "a - Never", "", "a 1000 Never", ""},
		"a policy that groups can't have":      {"a=1000 Often", "a", "", "", wrongPolicy},
		"without policies":                     {"a=1000 Never", "a", groupPolicies, "a 1000 -", ""},
		"without policies, another":            {"a=1000 PreemptLowerPriority", "a - Never", groupPolicies, "a 1000 Never", ""},
		"without policies, one of the class's": {"a=1000 Often", "a", groupPolicies, "a 1000 -", ""},
	} {
		for kind, of := range kindsOfGroups {
			t.Run(name+", "+kind, func(t *testing.T) {
				result := groupPlugin(t, test.off, test.class).Admit(t, plugintest.Create(of.make(test.group)))
				if test.refused != "" {
					result.Refused(t, 403, of.resource+`.scheduling.k8s.io "g" is forbidden: `+
						strings.Replace(test.refused, "KIND", of.words, 1))
					return
				}
				if got := of.says(result.Admitted(t).Object); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
			})
		}
	}
}

// groupPlugin has a class, and all gates but one on.
func groupPlugin(t *testing.T, off featuregate.Feature, class string) *plugintest.Plugin {
	t.Helper()
	cluster := plugintest.NewCluster(t, classes(class)...)
	gates := featuregate.NewFeatureGate()
	specs := map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, gate := range []featuregate.Feature{groupPriorities, compositePriorities, groupPolicies} {
		specs[gate] = featuregate.FeatureSpec{Default: gate != off, PreRelease: featuregate.Alpha}
	}
	if err := gates.Add(specs); err != nil {
		t.Fatal(err)
	}
	cluster.Env.Features = gates
	return cluster.Build(t, Descriptor, "")
}

func TestOtherRequestsForGroupsAreLeftAlone(t *testing.T) {
	for kind, of := range kindsOfGroups {
		gate := groupPriorities
		if of.resource == "compositepodgroups" {
			gate = compositePriorities
		}
		group := of.make("b 7")
		all := groupPlugin(t, "", "a=1000")
		for name, result := range map[string]plugintest.Result{
			"without the gate": groupPlugin(t, gate, "a=1000").Admit(t, plugintest.Create(group)),
			"update":           all.Admit(t, plugintest.Update(group, group)),
			"status":           all.Admit(t, plugintest.Create(group).On(of.resource, "status")),
		} {
			if got := of.says(result.Admitted(t).Object); got != "b 7 -" {
				t.Errorf("%s, %s: got %s", kind, name, got)
			}
		}
		wrong := plugintest.Create(group)
		wrong.Object = &corev1.Pod{}
		all.Admit(t, wrong).Refused(t, 400, "Priority: the object of a request for "+of.resource+" is a *v1.Pod")
	}
}
