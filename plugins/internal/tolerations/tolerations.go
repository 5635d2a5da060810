// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tolerations compares tolerations by the rules of Kubernetes' merge. It is for the plugins
// that merge a pod's tolerations with those of its namespace or of its RuntimeClass.
package tolerations

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Equal reports whether two tolerations are the same in each field.
func Equal(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect &&
		ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
}

// Covers reports whether wide tolerates every taint that narrow does, and at least as long. A
// missing operator means Equal in wide, but not in narrow. A narrow without operator is covered
// only by the same words, or by Exists.
//
// Source: k8s.io/kubernetes/pkg/util/tolerations/tolerations.go#isSuperset 6d331dd0
func Covers(wide, narrow corev1.Toleration) bool {
	if Equal(wide, narrow) {
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
		return false // numeric comparisons cover only themselves
	}
}
