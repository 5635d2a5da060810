// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The words for what a change means to a quota, and that they refuse what Admit refuses.
func TestExplain(t *testing.T) {
	cost := func(options ...podOption) *Cost {
		c, err := CostOf(corev1.Resource("pods"), newPod(options...))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	small, large := cost(with(box("c", "cpu=100m", ""))), cost(with(box("c", "cpu=900m", "")))
	for name, test := range map[string]struct {
		old, new *Cost
		quota    *corev1.ResourceQuota
		words    string
		refused  bool
	}{
		"room": {nil, small, newQuota("q", "pods=5,requests.cpu=1,services=3", "pods=3,requests.cpu=500m"),
			"pods: 3 of 5 used, 1 requested; requests.cpu: 500m of 1 used, 100m requested", false},
		"no room": {nil, small, newQuota("q", "pods=3,requests.cpu=1", "pods=3,requests.cpu=500m"),
			"pods: 3 of 3 used, 1 requested, which is too much; requests.cpu: 500m of 1 used, 100m requested", true},
		"unknown": {nil, small, newQuota("q", "pods=3", ""),
			"pods: not known yet how much of 3 is used, 1 requested", true},
		"unstated": {nil, small, newQuota("q", "limits.cpu=3", "limits.cpu=0"),
			"must specify limits.cpu for: c", true},
		"another resource": {nil, small, newQuota("q", "services=3", "services=3"), "", false},
		"gone":             {small, nil, newQuota("q", "pods=3", "pods=3"), "pods: 3 of 3 used, 1 given back", false},
		"more": {small, large, newQuota("q", "pods=3,requests.cpu=1", "pods=3,requests.cpu=1"),
			"requests.cpu: 1 of 1 used, 800m requested, which is too much", true},
		"less": {large, small, newQuota("q", "requests.cpu=1", "requests.cpu=2"),
			"requests.cpu: 2 of 1 used, 800m given back", false},
		"the same": {small, small, newQuota("q", "limits.cpu=3", "limits.cpu=0"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			change := Change{Resource: corev1.Resource("pods"), Old: test.old, New: test.new}
			words, refused := change.Explain(test.quota)
			if words != test.words || refused != test.refused {
				t.Errorf("got  %q, %t\nwant %q, %t", words, refused, test.words, test.refused)
			}
			if _, err := change.Admit([]*corev1.ResourceQuota{test.quota}, nil); (err != nil) != refused {
				t.Errorf("Admit says %v", err)
			}
		})
	}
}
