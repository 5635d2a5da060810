package runtimeclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// maxCompared is how many tolerations are all compared with each other. A pod may have any number,
// and comparing them takes the square of that; of more, what the pod has is compared with what the
// class adds only.
const maxCompared = 500

// merge is what a pod tolerates together with what its class adds. Of two tolerations of which one
// covers the other the wider stays, of equal ones the first. Nothing of the additions is shared.
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
		if slices.ContainsFunc(earlier, func(other corev1.Toleration) bool { return covers(other, t) }) ||
			slices.ContainsFunc(later, func(other corev1.Toleration) bool {
				return !equal(other, t) && covers(other, t)
			}) {
			continue
		}
		merged = append(merged, t)
	}
	return merged
}

// covers tells whether wide tolerates every taint that narrow does, and at least as long. An
// operator that is left out is Equal in wide, but in narrow it is only covered by what is equal, or
// by Exists: as upstream's isSuperset.
func covers(wide, narrow corev1.Toleration) bool {
	if equal(wide, narrow) {
		return true
	}
	if wide.Key != narrow.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists) {
		return false
	}
	if wide.Effect != narrow.Effect && wide.Effect != "" {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return narrow.Operator == corev1.TolerationOpEqual && narrow.Value == wide.Value
	default:
		return false // of numeric comparisons only the same
	}
}

func equal(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect &&
		ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
}
