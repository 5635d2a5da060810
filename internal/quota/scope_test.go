// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	terminating    = corev1.ResourceQuotaScopeTerminating
	notTerminating = corev1.ResourceQuotaScopeNotTerminating
	bestEffort     = corev1.ResourceQuotaScopeBestEffort
	notBestEffort  = corev1.ResourceQuotaScopeNotBestEffort
	priorityClass  = corev1.ResourceQuotaScopePriorityClass
	crossNamespace = corev1.ResourceQuotaScopeCrossNamespacePodAffinity
	attributes     = corev1.ResourceQuotaScopeVolumeAttributesClass

	in           = corev1.ScopeSelectorOpIn
	notIn        = corev1.ScopeSelectorOpNotIn
	exists       = corev1.ScopeSelectorOpExists
	doesNotExist = corev1.ScopeSelectorOpDoesNotExist
)

// Source: TestPodEvaluatorMatchingScopes in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods_test.go.
func TestPodScopes(t *testing.T) {
	own := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}}
	list1 := corev1.PodAffinityTerm{Namespaces: []string{"ns1"}}
	selector := corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}
	weighted := func(term corev1.PodAffinityTerm) []corev1.WeightedPodAffinityTerm {
		return []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: own}, {PodAffinityTerm: term}}
	}
	required := func(term corev1.PodAffinityTerm) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{own,
			term}
	}
	affinity := func(a *corev1.PodAffinity, anti *corev1.PodAntiAffinity) podOption {
		return func(pod *corev1.Pod) { pod.Spec.Affinity = &corev1.Affinity{PodAffinity: a, PodAntiAffinity: anti} }
	}
	qos := func(class corev1.PodQOSClass) podOption {
		return func(pod *corev1.Pod) { pod.Status.QOSClass = class }
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []corev1.ResourceQuotaScope
	}{
		"EmptyPod": {newPod(), []corev1.ResourceQuotaScope{notTerminating, bestEffort}},
		"PriorityClass": {newPod(ofClass("class1")),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort, priorityClass}},
		"NotBestEffort": {newPod(with(box("c", "cpu=1,memory=50M,example.com/dongle=1", "cpu=2"))),
			[]corev1.ResourceQuotaScope{notTerminating, notBestEffort}},
		"limits": {newPod(with(box("c", "", "memory=1Gi"))),
			[]corev1.ResourceQuotaScope{notTerminating, notBestEffort}},
		"init container": {newPod(withInit(box("c", "cpu=1", ""))),
			[]corev1.ResourceQuotaScope{notTerminating, notBestEffort}},
		"no compute, no class": {newPod(with(box("c", "cpu=0,ephemeral-storage=1Gi,example.com/x=1", ""))),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort}},
		"pod-level": {newPod(podLevel("cpu=1", "")),
			[]corev1.ResourceQuotaScope{notTerminating, notBestEffort}},
		"pod-level, none of it": {newPod(podLevel("", ""), with(box("c", "cpu=1", ""))),
			[]corev1.ResourceQuotaScope{notTerminating, notBestEffort}},
		"class in status": {newPod(qos(corev1.PodQOSBurstable)),
			[]corev1.ResourceQuotaScope{notTerminating, notBestEffort}},
		"best effort in status": {newPod(qos(corev1.PodQOSBestEffort), with(box("c", "cpu=1", ""))),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort}},
		"Terminating":         {newPod(deadline(30)), []corev1.ResourceQuotaScope{terminating, bestEffort}},
		"Terminating at once": {newPod(deadline(0)), []corev1.ResourceQuotaScope{terminating, bestEffort}},
		"negative deadline":   {newPod(deadline(-1)), []corev1.ResourceQuotaScope{notTerminating, bestEffort}},
		"affinity within": {newPod(
			affinity(&corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required(own)},
				&corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(own)})),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort}},
		"CrossNamespaceRequiredAffinityWithSlice": {
			newPod(affinity(&corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required(list1)}, nil)),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort, crossNamespace},
		},
		"CrossNamespacePreferredAffinityWithSelector": {
			newPod(affinity(&corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(selector)},
				nil)), []corev1.ResourceQuotaScope{notTerminating, bestEffort, crossNamespace},
		},
		"CrossNamespacePreferredAntiAffinity": {
			newPod(affinity(nil,
				&corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(selector)})),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort, crossNamespace},
		},
		"CrossNamespaceRequiredAntiAffinity": {
			newPod(affinity(nil,
				&corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required(list1)})),
			[]corev1.ResourceQuotaScope{notTerminating, bestEffort, crossNamespace},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cost(t, pods, test.pod)
			for _, scope := range []corev1.ResourceQuotaScope{terminating, notTerminating, bestEffort, notBestEffort,
				priorityClass, crossNamespace, attributes, "Other"} {
				want := slices.Contains(test.want, scope)
				if got := c.scopedTo(newQuota("q", "", "", scoped(scope))) != nil; got != want {
					t.Errorf("in scope %s: %t, want %t", scope, got, want)
				}
				if got := c.scopedTo(newQuota("q", "", "", selecting(scope, exists))) != nil; got != want {
					t.Errorf("selected by %s: %t, want %t", scope, got, want)
				}
			}
		})
	}
}

// By the operators of label selectors, to which
// k8s.io/kubernetes/pkg/apis/core/v1/helper/helpers.go makes them.
func TestSelectors(t *testing.T) {
	long := strings.Repeat("long", 20)
	for _, test := range []struct {
		class    string
		operator corev1.ScopeSelectorOperator
		values   []string
		want     bool
	}{
		{"a", exists, nil, true}, {"", exists, nil, false},
		{"a", doesNotExist, nil, false}, {"", doesNotExist, nil, true},
		{"a", in, []string{"b", "a"}, true}, {"c", in, []string{"b", "a"}, false}, {"", in, []string{"a"}, false},
		{"", in, []string{""}, false},
		{"a", notIn, []string{"b", "a"}, false}, {"c", notIn, []string{"b", "a"}, true},
		{"", notIn, []string{"a"}, true},
		{"a", "", nil, false}, {"a", "Like", []string{"a"}, false},
		// Upstream fails pods of any class here, as the name is too long for a label's value.
		{long, in, []string{long}, true},
	} {
		pod := cost(t, pods, newPod(ofClass(test.class)))
		if got := pod.scopedTo(newQuota("q", "", "",
			selecting(priorityClass, test.operator, test.values...))) != nil; got != test.want {
			t.Errorf("pod of class %q %s %q: %t, want %t", test.class, test.operator, test.values, got, test.want)
		}
		pvc := newPVC("", "")
		pvc.Spec.VolumeAttributesClassName = &test.class
		if got := cost(t, persistentVolumeClaims, pvc).scopedTo(newQuota("q", "", "",
			selecting(attributes, test.operator, test.values...))) != nil; got != test.want {
			t.Errorf("claim of class %q %s %q: %t, want %t", test.class, test.operator, test.values, got, test.want)
		}
	}
}

// Source: TestPersistentVolumeClaimEvaluatorMatchingScopes in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims_test.go.
func TestVolumeClaimScopes(t *testing.T) {
	class1, class2 := "class1", "class2"
	changing := newPVC("1Gi", "")
	changing.Spec.VolumeAttributesClassName = &class1
	changing.Status.CurrentVolumeAttributesClassName = &class2
	changing.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "class3"}
	for _, test := range []struct {
		pvc      *corev1.PersistentVolumeClaim
		operator corev1.ScopeSelectorOperator
		values   []string
		want     bool
	}{
		{newPVC("1Gi", ""), doesNotExist, nil, true},
		{newPVC("1Gi", ""), exists, nil, false},
		{newPVC("1Gi", ""), in, []string{"class1"}, false},
		{newPVC("1Gi", ""), notIn, []string{"class4"}, true},
		{changing, doesNotExist, nil, false},
		{changing, exists, nil, true},
		{changing, in, []string{"class1"}, true},
		{changing, in, []string{"class2"}, true},
		{changing, in, []string{"class3"}, true},
		{changing, in, []string{"class4"}, false},
		{changing, notIn, []string{"class4"}, true},
		// One of the three isn't class1.
		{changing, notIn, []string{"class1"}, true},
		{changing, notIn, []string{"class1", "class2", "class3"}, false},
	} {
		q := newQuota("q", "requests.storage=1", "", selecting(attributes, test.operator, test.values...))
		if got := cost(t, persistentVolumeClaims, test.pvc).scopedTo(q) != nil; got != test.want {
			t.Errorf("%s %q: %t, want %t", test.operator, test.values, got, test.want)
		}
	}
	for _, scope := range []corev1.ResourceQuotaScope{terminating, notTerminating, bestEffort, notBestEffort,
		priorityClass, crossNamespace} {
		if cost(t, persistentVolumeClaims, changing).scopedTo(newQuota("q", "", "", scoped(scope))) != nil {
			t.Errorf("a claim is in scope %s", scope)
		}
	}
}

// An object has to be in all scopes, and one that has none is in none.
func TestAllScopes(t *testing.T) {
	pod := cost(t, pods, newPod(ofClass("high"), deadline(1)))
	for name, test := range map[string]struct {
		q    *corev1.ResourceQuota
		want bool
	}{
		"no scope": {newQuota("q", "", ""), true},
		"empty selector": {newQuota("q", "", "",
			func(q *corev1.ResourceQuota) { q.Spec.ScopeSelector = &corev1.ScopeSelector{} }), true},
		"all": {newQuota("q", "", "", scoped(bestEffort, terminating), selecting(priorityClass, in, "high")),
			true},
		"not the first": {newQuota("q", "", "", scoped(notBestEffort, terminating),
			selecting(priorityClass, in, "high")), false},
		"not the last": {newQuota("q", "", "", scoped(bestEffort, terminating), selecting(priorityClass, in, "low")),
			false},
		"not the second": {newQuota("q", "", "", selecting(priorityClass, exists),
			selecting(priorityClass, notIn, "high")), false},
	} {
		if got := pod.scopedTo(test.q) != nil; got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	for _, c := range []*Cost{cost(t, configMaps, marker("c")),
		cost(t, services, newService(corev1.ServiceTypeClusterIP, nil))} {
		if c.scopedTo(newQuota("q", "", "")) == nil || c.scopedTo(newQuota("q", "", "", scoped(notTerminating))) != nil ||
			c.scopedTo(newQuota("q", "", "", selecting(attributes, doesNotExist))) != nil {
			t.Error("an object without scopes is in one, or not in none")
		}
	}
}
