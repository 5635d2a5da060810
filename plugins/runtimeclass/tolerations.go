// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugins/internal/tolerations"
)

// maxCompared is the largest number of tolerations that are all compared with each other. A pod may
// have any number, and the comparison's time grows with its square. If there are more, the pod's
// are compared with the class's only.
const maxCompared = 500

// merge returns the pod's tolerations and its class's. If one toleration covers another, the wider
// one stays; of two equal ones, the first stays. The result shares nothing with the additions.
//
// Upstream: MergeTolerations in k8s.io/kubernetes/pkg/util/tolerations.
func merge(pod, additions []corev1.Toleration) []corev1.Toleration {
	all := slices.Clone(pod)
	for _, t := range additions {
		all = append(all, *t.DeepCopy())
	}
	var merged []corev1.Toleration
	for i, t := range all {
		earlier, later := merged, all[i+1:]
		if len(all) > maxCompared && i < len(pod) {
			earlier, later = nil, all[len(pod):]
		}
		if slices.ContainsFunc(earlier, func(other corev1.Toleration) bool { return tolerations.Covers(other, t) }) ||
			slices.ContainsFunc(later, func(other corev1.Toleration) bool {
				return !tolerations.Equal(other, t) && tolerations.Covers(other, t)
			}) {
			continue
		}
		merged = append(merged, t)
	}
	return merged
}
