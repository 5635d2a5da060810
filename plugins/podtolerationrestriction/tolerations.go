// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podtolerationrestriction

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/plugins/internal/tolerations"
)

// parse reads a list of tolerations in JSON, as annotations have it. An empty text is an empty
// list.
func parse(text string, path *field.Path) ([]corev1.Toleration, error) {
	if text == "" {
		return nil, nil
	}
	var tolerations []corev1.Toleration
	strict, err := kjson.UnmarshalStrict([]byte(text), &tolerations)
	if err == nil {
		err = utilerrors.NewAggregate(strict)
	}
	if err != nil {
		return nil, field.Invalid(path, text, "must be a list of tolerations in JSON: "+err.Error())
	}
	if errs := validate(tolerations, path); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return tolerations, nil
}

// validate returns what is wrong with tolerations, by the API's rules for those of a pod:
// ValidateTolerations in k8s.io/kubernetes/pkg/apis/core/validation.
func validate(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		path := path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(path.Child("effect"), t.Effect,
				"effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if wrong := validation.IsValidLabelValue(t.Value); len(wrong) > 0 {
				errs = append(errs, field.Invalid(path.Child("operator"), t.Value, strings.Join(wrong, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs,
					field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
			if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
				errs = append(errs, field.Invalid(path.Child("value"), t.Value, err.Error()))
			}
		default:
			errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, []corev1.TolerationOperator{
				corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt,
			}))
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect, []corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
			}))
		}
	}
	return errs
}

// merge returns the pod's tolerations and the additions. If one toleration covers another, the
// wider one stays; of two equal ones, the pod's stays. The pod's tolerations are compared with the
// additions only, because there may be any number. The result shares nothing with the additions.
func merge(pod, additions []corev1.Toleration) []corev1.Toleration {
	merged := make([]corev1.Toleration, 0, len(pod)+len(additions))
	for _, t := range pod {
		if !widened(t, additions) {
			merged = append(merged, t)
		}
	}
	for i, t := range additions {
		if !widened(t, additions[i+1:]) && !isCovered(t, merged) {
			merged = append(merged, *t.DeepCopy())
		}
	}
	return merged
}

// widened reports whether one of the list covers the toleration and more.
func widened(t corev1.Toleration, list []corev1.Toleration) bool {
	return slices.ContainsFunc(list,
		func(other corev1.Toleration) bool {
			return !tolerations.Equal(other, t) && tolerations.Covers(other, t)
		})
}

// conflicts reports whether there are defaults for the toleration's key and effect, but none of
// them covers it or is covered by it.
func conflicts(t corev1.Toleration, defaults []corev1.Toleration) bool {
	same, t := false, withOperator(t)
	for _, d := range defaults {
		d = withOperator(d)
		if tolerations.Covers(d, t) || tolerations.Covers(t, d) {
			return false
		}
		same = same || d.Key == t.Key && d.Effect == t.Effect
	}
	return same
}

// isCovered reports whether one of the list covers the toleration.
func isCovered(t corev1.Toleration, list []corev1.Toleration) bool {
	return slices.ContainsFunc(list, func(other corev1.Toleration) bool { return tolerations.Covers(other, t) })
}

// withOperator returns the toleration with its operator, which may be left out if it is Equal.
func withOperator(t corev1.Toleration) corev1.Toleration {
	if t.Operator == "" {
		t.Operator = corev1.TolerationOpEqual
	}
	return t
}
