// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkSELinux finds fault with labels that differ from the required ones.
func checkSELinux(required, labels *corev1.SELinuxOptions, path *field.Path, found *reasons) {
	if labels == nil {
		found.add(field.Required(path, ""))
		return
	}
	for _, part := range []struct {
		name            string
		required, value string
		equal           bool
	}{
		{"level", required.Level, labels.Level, sameLevel(required.Level, labels.Level)},
		{"role", required.Role, labels.Role, required.Role == labels.Role},
		{"type", required.Type, labels.Type, required.Type == labels.Type},
		{"user", required.User, labels.User, required.User == labels.User},
	} {
		if !part.equal {
			found.add(field.Invalid(path.Child(part.name), part.value, "must be "+part.required))
		}
	}
}

// sameLevel reports whether levels, such as s0:c6,c0, are the same. Their categories have no order.
func sameLevel(a, b string) bool {
	if a == b {
		return true
	}
	sensitivity, categories, ok := strings.Cut(a, ":")
	otherSensitivity, otherCategories, otherOK := strings.Cut(b, ":")
	if !ok || !otherOK || sensitivity != otherSensitivity {
		return false
	}
	return slices.Equal(sorted(strings.Split(categories, ",")), sorted(strings.Split(otherCategories, ",")))
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}
