// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/pod-security-admission/api"
)

// namespace decides a request for a namespace object.
func (p *podSecurity) namespace(ctx context.Context, a admission.Attributes) *verdict {
	namespace, ok := a.GetObject().(*corev1.Namespace)
	if !ok {
		return unexpected(apierrors.NewBadRequest("failed to decode namespace"), nil)
	}
	wanted, wrong := api.PolicyToEvaluate(namespace.Labels, p.defaults)
	if a.GetOperation() == admission.Create {
		if len(wrong) > 0 {
			return invalid(a, wrong)
		}
		if hasName(p.exempted.namespaces, namespace.Name) {
			return p.ignored(namespace, wanted)
		}
		return unremarkable
	}

	old, ok := a.GetOldObject().(*corev1.Namespace)
	if !ok {
		return unexpected(apierrors.NewBadRequest("failed to decode old namespace"), nil)
	}
	before, wrongBefore := api.PolicyToEvaluate(old.Labels, p.defaults)
	if len(wrong) > 0 && !slices.EqualFunc(wrong, wrongBefore, sameError) {
		return invalid(a, wrong)
	}
	if !stricter(wanted.Enforce, before.Enforce) {
		return unremarkable
	}
	if hasName(p.exempted.namespaces, namespace.Name) {
		return p.ignored(namespace, wanted)
	}
	return &verdict{warnings: p.warnOfExisting(ctx, namespace.Name, wanted.Enforce)}
}

func invalid(a admission.Attributes, wrong field.ErrorList) *verdict {
	return &verdict{refusal: apierrors.NewInvalid(a.GetKind().GroupKind(), a.GetName(), wrong)}
}

func sameError(a, b *field.Error) bool { return *a == *b }

// stricter reports whether pods that conform to before may violate now. Levels of different
// versions can't be compared, so any change of the version counts as stricter.
func stricter(now, before api.LevelVersion) bool {
	switch {
	case now == before, now.Level == api.LevelPrivileged:
		return false
	case now.Version == before.Version:
		return api.CompareLevels(now.Level, before.Level) > 0
	default:
		return true
	}
}

// ignored warns if an exempt namespace has labels, because they have no effect.
func (p *podSecurity) ignored(namespace *corev1.Namespace, wanted api.Policy) *verdict {
	if wanted.FullyPrivileged() || wanted.Equivalent(&p.defaults) {
		return unremarkable
	}
	var asked []string
	for _, m := range []struct {
		mode                     mode
		wanted                   api.LevelVersion
		levelLabel, versionLabel string
	}{
		{enforce, wanted.Enforce, api.EnforceLevelLabel, api.EnforceVersionLabel},
		{audit, wanted.Audit, api.AuditLevelLabel, api.AuditVersionLabel},
		{warn, wanted.Warn, api.WarnLevelLabel, api.WarnVersionLabel},
	} {
		_, level := namespace.Labels[m.levelLabel]
		_, version := namespace.Labels[m.versionLabel]
		if m.wanted.Level != api.LevelPrivileged && (level || version) {
			asked = append(asked, fmt.Sprintf("%s=%s", m.mode, m.wanted))
		}
	}
	return &verdict{warnings: []string{fmt.Sprintf(
		"namespace %q is exempt from Pod Security, and the policy (%s) will be ignored",
		namespace.Name, strings.Join(asked, ", "))}}
}
