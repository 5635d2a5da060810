// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/klog/v2"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"gatehouse.dev/plugin"
)

// allPrivileged is the verdict on pods in a namespace that is privileged in all modes. The
// privileged level is the same in all versions.
var allPrivileged = privilegedVerdict()

func privilegedVerdict() *verdict {
	against := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	return &verdict{
		evaluations: []evaluation{{mode: enforce, against: against}},
		audit:       map[string]string{enforcedKey: against.String()},
	}
}

// pod decides a request for pods.
func (p *podSecurity) pod(ctx context.Context, a admission.Attributes) *verdict {
	if v := p.exempt(a); v != nil {
		return v
	}
	namespace, err := p.namespaces.Get(ctx, a.GetNamespace())
	if err != nil {
		klog.ErrorS(err, "Pod refused: its namespace can't be read", "plugin", name, "namespace", a.GetNamespace(), "pod",
			a.GetName())
		refusal := apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", a.GetNamespace()))
		return unexpected(plugin.Unanswered(err, refusal), err)
	}
	wanted, wrong := api.PolicyToEvaluate(namespace.Labels, p.defaults)
	if len(wrong) == 0 && wanted.FullyPrivileged() {
		return allPrivileged
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return unexpected(apierrors.NewBadRequest("failed to decode pod"), nil)
	}
	if a.GetOperation() == admission.Update {
		old, ok := a.GetOldObject().(*corev1.Pod)
		if !ok {
			return unexpected(apierrors.NewBadRequest("failed to decode old pod"), nil)
		}
		if !canAddViolation(&pod.Spec, &old.Spec) {
			return unremarkable
		}
	}
	return p.evaluate(a, wanted, wrong.ToAggregate(), &pod.ObjectMeta, &pod.Spec, true)
}

// canAddViolation reports whether an update of a pod can add a violation.
func canAddViolation(spec, old *corev1.PodSpec) bool {
	if otherImages(spec.Containers, old.Containers) || otherImages(spec.InitContainers, old.InitContainers) {
		return true
	}
	images := make(map[string]string, len(old.EphemeralContainers))
	for i := range old.EphemeralContainers {
		images[old.EphemeralContainers[i].Name] = old.EphemeralContainers[i].Image
	}
	for i := range spec.EphemeralContainers {
		if image, ok := images[spec.EphemeralContainers[i].Name]; !ok || image != spec.EphemeralContainers[i].Image {
			return true
		}
	}
	return false
}

func otherImages(containers, old []corev1.Container) bool {
	if len(containers) != len(old) {
		return true
	}
	for i := range containers {
		if containers[i].Image != old[i].Image {
			return true
		}
	}
	return false
}

// evaluate checks a pod, or the template of one, against the levels of its namespace. wrong is the
// error in the namespace's labels. Only pods themselves are checked against the enforced level.
func (p *podSecurity) evaluate(a admission.Attributes, wanted api.Policy, wrong error, meta *metav1.ObjectMeta,
	spec *corev1.PodSpec, enforced bool) *verdict {
	if p.exemptClass(spec) {
		return exemptRuntimeClass
	}
	v := &verdict{audit: map[string]string{}}
	if wrong != nil {
		v.failed = unreadable
		v.audit[errorKey] = fmt.Sprintf("Failed to parse policy: %v", wrong)
	}
	// The three modes mostly have the same level and version.
	results := make(map[api.LevelVersion]policy.AggregateCheckResult, 3)
	check := func(against api.LevelVersion) policy.AggregateCheckResult {
		result, ok := results[against]
		if !ok {
			result = policy.AggregateCheckResults(p.checks.EvaluatePod(against, meta, spec))
			results[against] = result
		}
		return result
	}
	if enforced {
		v.audit[enforcedKey] = wanted.Enforce.String()
		result := check(wanted.Enforce)
		if !result.Allowed {
			v.refusal = apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
				fmt.Errorf("violates PodSecurity %q: %s", wanted.Enforce, result.ForbiddenDetail()))
		}
		v.evaluations = append(v.evaluations, evaluation{enforce, wanted.Enforce, !result.Allowed})
	}
	if result := check(wanted.Audit); !result.Allowed {
		v.audit[violationsKey] = wouldViolate(wanted.Audit, result)
		v.evaluations = append(v.evaluations, evaluation{audit, wanted.Audit, true})
	}
	if v.refusal != nil {
		return v // the refusal says what a warning would
	}
	if result := check(wanted.Warn); !result.Allowed {
		v.warnings = []string{wouldViolate(wanted.Warn, result)}
		v.evaluations = append(v.evaluations, evaluation{warn, wanted.Warn, true})
	}
	return v
}

func wouldViolate(against api.LevelVersion, result policy.AggregateCheckResult) string {
	return fmt.Sprintf("would violate PodSecurity %q: %s", against, result.ForbiddenDetail())
}

// exemptClass reports whether the pod's runtime class is exempt.
func (p *podSecurity) exemptClass(spec *corev1.PodSpec) bool {
	return spec.RuntimeClassName != nil && hasName(p.exempted.runtimeClasses, *spec.RuntimeClassName)
}
