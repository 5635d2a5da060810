// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// noon is the time in tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// list reads "cpu=1,memory=1Gi".
func list(text string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		if name, amount, ok := strings.Cut(strings.TrimSpace(part), "="); ok {
			l[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
	}
	return l
}

// show is the opposite of list, with the names sorted.
func show(l corev1.ResourceList) string {
	var over []excess
	for name, amount := range l {
		over = append(over, excess{name: name, requested: amount})
	}
	text := exceededMessage("", over)
	text = strings.TrimPrefix(text, "exceeded quota: , requested: ")
	text, _, _ = strings.Cut(text, ", used:")
	return text
}

func wantList(t *testing.T, what string, got, want corev1.ResourceList) {
	t.Helper()
	if !equalLists(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, show(got), show(want))
	}
}

// box is a container with requests and limits.
func box(name, requests, limits string) corev1.Container {
	return corev1.Container{Name: name,
		Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}}
}

func sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

type podOption func(*corev1.Pod)

func newPod(options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func with(containers ...corev1.Container) podOption {
	return func(pod *corev1.Pod) { pod.Spec.Containers = containers }
}

func withInit(containers ...corev1.Container) podOption {
	return func(pod *corev1.Pod) { pod.Spec.InitContainers = containers }
}

func inPhase(phase corev1.PodPhase) podOption {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func overhead(text string) podOption {
	return func(pod *corev1.Pod) { pod.Spec.Overhead = list(text) }
}

func podLevel(requests, limits string) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	}
}

func ofClass(name string) podOption {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = name }
}

func deadline(seconds int64) podOption {
	return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
}

func deleted(at time.Time, grace int64) podOption {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: at}, &grace
	}
}

type quotaOption func(*corev1.ResourceQuota)

// newQuota is a quota that has been synced.
func newQuota(name, hard, used string, options ...quotaOption) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "7"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list(hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)},
	}
	for _, option := range options {
		option(q)
	}
	return q
}

func scoped(scopes ...corev1.ResourceQuotaScope) quotaOption {
	return func(q *corev1.ResourceQuota) { q.Spec.Scopes = scopes }
}

func selecting(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) quotaOption {
	return func(q *corev1.ResourceQuota) {
		if q.Spec.ScopeSelector == nil {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{}
		}
		q.Spec.ScopeSelector.MatchExpressions = append(q.Spec.ScopeSelector.MatchExpressions,
			requirement(scope, operator, values...))
	}
}

func requirement(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator,
	values ...string) corev1.ScopedResourceSelectorRequirement {
	return corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: operator, Values: values}
}

// cost measures at noon; nil has none.
func cost(t testing.TB, resource schema.GroupResource, object runtime.Object) *Cost {
	t.Helper()
	if object == nil {
		return nil
	}
	c, err := Meter{Now: atNoon}.CostOf(resource, object)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// change measures old and new, which may be nil.
func change(t testing.TB, resource schema.GroupResource, old, new runtime.Object) Change {
	t.Helper()
	return Change{Resource: resource, Old: cost(t, resource, old), New: cost(t, resource, new)}
}

func marker(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// usage is what became of quotas: "q: pods=1; r: cpu=2", those not moved left out.
func usage(quotas []*corev1.ResourceQuota) string {
	var parts []string
	for _, q := range quotas {
		parts = append(parts, fmt.Sprintf("%s: %s", q.Name, show(q.Status.Used)))
	}
	return strings.Join(parts, "; ")
}
