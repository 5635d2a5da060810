// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod whose grace period is over counts until it is among those that have ended.
func TestEnded(t *testing.T) {
	pod := CountedObject("pods", "x").(*corev1.Pod)
	pod.APIVersion, pod.Kind, pod.Namespace, pod.UID = "v1", "Pod", Quotas, "uid"
	deleted := pod.DeepCopy()
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(1))
	atOnce := deleted.DeepCopy()
	atOnce.DeletionGracePeriodSeconds = new(int64(0))
	failed := deleted.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	ended := Event{Key: endedKey, Value: []byte(`["uid"]`)}
	gone := Event{Key: keyPrefix + "pods/" + Quotas + "/x", Deleted: true}
	for name, test := range map[string]struct {
		spoil func(h *History)
		ok    bool
	}{
		"right":            {func(*History) {}, true},
		"counted too long": {func(h *History) { h.Revisions[3].Events = []Event{ended} }, false},
		"given back early": {func(h *History) { h.Revisions[3].Events = []Event{podQuota("0", "1")} }, false},
		"given back twice": {func(h *History) { h.Revisions[4].Events = []Event{gone, podQuota("-1", "0")} }, false},
		"failed": {func(h *History) {
			h.Revisions[3].Events = []Event{stored("pods/"+Quotas+"/x", failed), podQuota("0", "1")}
		}, true},
		"deleted at once": {func(h *History) {
			h.Revisions[3].Events = []Event{stored("pods/"+Quotas+"/x", atOnce), podQuota("0", "1")}
		}, true},
		"not a list": {func(h *History) { h.Revisions[3].Events[0].Value = []byte("{}") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{}
			for i, events := range [][]Event{
				{podQuota("0", "0")},
				{podQuota("1", "1"), stored("pods/"+Quotas+"/x", pod)},
				{stored("pods/"+Quotas+"/x", deleted)},
				{ended, podQuota("0", "1")},
				{gone, podQuota("0", "0")},
			} {
				h.Revisions = append(h.Revisions, Revision{Revision: int64(i + 1), Events: events})
			}
			test.spoil(h)
			if r := h.Check(); r.OK() != test.ok {
				t.Errorf("it is\n%s", r)
			}
		})
	}
}

// podQuota returns a quota that shows how many pods it counts, and how many there are.
func podQuota(used, all string) Event {
	q := &corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}}
	q.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("3"), "requests.cpu": resource.MustParse("300m"),
		countPods: resource.MustParse("3")}
	q.Status.Used = corev1.ResourceList{"pods": resource.MustParse(used), "requests.cpu": resource.MustParse(used + "00m"),
		countPods: resource.MustParse(all)}
	return stored("resourcequotas/"+Quotas+"/pods", q)
}

// A pod that was given time need not be gone.
func TestGrace(t *testing.T) {
	ending := version{object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}}
	for name, test := range map[string]struct {
		grace   int
		version version
		want    bool
	}{
		"ends":              {1, ending, true},
		"ends without time": {0, ending, false},
		"doesn't end":       {1, version{object: &corev1.Pod{}}, false},
		"gone":              {1, version{}, true},
		"of no pod":         {1, version{object: &corev1.ConfigMap{}}, false},
	} {
		if got := (&Operation{Grace: test.grace}).hasDeleted(test.version); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A quota has no room if an object would bring it above a limit.
func TestFull(t *testing.T) {
	for name, test := range map[string]struct {
		used, hard string
		want       bool
	}{
		"empty":    {"0", "2", false},
		"room":     {"1", "2", false},
		"full":     {"2", "2", true},
		"overfull": {"3", "2", true},
		"nothing":  {"0", "0", true},
	} {
		h := &History{Revisions: []Revision{{Revision: 1, Events: []Event{quotaOf(test.used, test.hard)}}}}
		s := newStore(h, &Report{Checked: map[string]int{}})
		if got := s.wasFull(costs["configmaps"], 1, 1); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		if s.wasFull(costs["pods"], 1, 1) {
			t.Errorf("%s: there is no room for pods, which have no limit", name)
		}
	}
}
