// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

const (
	seccompDefault  = policyv1beta1.SeccompDefaultProfileAnnotation
	seccompAllowed  = policyv1beta1.SeccompAllowedProfilesAnnotation
	appArmorDefault = policyv1beta1.AppArmorDefaultProfileAnnotation
	appArmorAllowed = policyv1beta1.AppArmorAllowedProfilesAnnotation
	appArmorOfC     = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "c"
)

// In Kubernetes 1.24 the profile was in the pod's annotations, from which the API server made the
// field. Here it is the field at once.
func TestSeccomp(t *testing.T) {
	const plain = `{containers: [{name: c}]}`
	const runtimeDefault = `{containers: [{name: c}], securityContext: {seccompProfile: {type: RuntimeDefault}}}`
	const own = `{containers: [{name: c, securityContext: {seccompProfile: {type: Localhost, localhostProfile: a/b}}}]}`
	only := func(profile string) map[string]string { return map[string]string{seccompAllowed: profile} }
	notSet := "spec.securityContext.seccompProfile: Forbidden:  is not an allowed seccomp profile. Valid values are "
	runSpecTests(t, map[string]specTest{
		"none": {pod: plain},
		"none allowed": {pod: runtimeDefault,
			reasons: []string{"spec.securityContext.seccompProfile: Forbidden: seccomp may not be set"}},
		"none allowed, own": {pod: own,
			reasons: []string{"spec.containers[0].securityContext.seccompProfile: Forbidden: seccomp may not be set"}},
		"allowed":                 {policyAnnotations: only("unconfined,runtime/default"), pod: runtimeDefault},
		"allowed by its old name": {policyAnnotations: only("docker/default"), pod: runtimeDefault},
		"any allowed":             {policyAnnotations: only("*"), pod: own},
		"others allowed": {
			policyAnnotations: only("unconfined,localhost/x"), pod: runtimeDefault,
			reasons: []string{"spec.securityContext.seccompProfile: Forbidden: runtime/default is not an allowed " +
				"seccomp profile. Valid values are unconfined,localhost/x"},
		},
		"required, but not set": {policyAnnotations: only("runtime/default"), pod: plain,
			reasons: []string{notSet + "runtime/default"}},
		"default": {
			policyAnnotations: map[string]string{seccompAllowed: "runtime/default", seccompDefault: "runtime/default"},
			pod:               plain, becomes: runtimeDefault,
		},
		"default of the old name": {policyAnnotations: map[string]string{seccompAllowed: "*",
			seccompDefault: "docker/default"}, pod: plain, becomes: runtimeDefault},
		"default of a file": {
			policyAnnotations: map[string]string{seccompAllowed: "*", seccompDefault: "localhost/a/b"}, pod: plain,
			becomes: `{containers: [{name: c}], securityContext: {seccompProfile: {type: Localhost, ` +
				`localhostProfile: a/b}}}`,
		},
		"default, but has its own": {
			policyAnnotations: map[string]string{seccompAllowed: "runtime/default,localhost/a/b",
				seccompDefault: "runtime/default"}, pod: own,
			becomes: `{containers: [{name: c, securityContext: {seccompProfile: {type: Localhost, localhostProfile: ` +
				`a/b}}}], securityContext: {seccompProfile: {type: RuntimeDefault}}}`,
		},
		"default that isn't allowed": {
			policyAnnotations: map[string]string{seccompDefault: "runtime/default"}, pod: plain,
			becomes: runtimeDefault,
			reasons: []string{"spec.securityContext.seccompProfile: Forbidden: seccomp may not be set"},
		},
		"of the pod's annotation": {
			policyAnnotations: map[string]string{seccompAllowed: "runtime/default", seccompDefault: "unconfined"},
			pod:               plain,
			podAnnotations:    map[string]string{corev1.SeccompPodAnnotationKey: "docker/default"},
			becomes:           runtimeDefault,
		},
		"of a container's annotation": {
			policyAnnotations: only("*"), pod: plain,
			podAnnotations: map[string]string{corev1.SeccompContainerAnnotationKeyPrefix + "c": "unconfined"},
			becomes:        `{containers: [{name: c, securityContext: {seccompProfile: {type: Unconfined}}}]}`,
		},
		"of an annotation that says nothing": {
			policyAnnotations: only("*"), pod: plain,
			podAnnotations: map[string]string{corev1.SeccompPodAnnotationKey: "localhost/"},
		},
		"of an annotation, and of the field": {
			policyAnnotations: only("unconfined"), pod: runtimeDefault,
			podAnnotations: map[string]string{corev1.SeccompPodAnnotationKey: "unconfined"},
			reasons: []string{"spec.securityContext.seccompProfile: Forbidden: runtime/default is not an " +
				"allowed seccomp profile. Valid values are unconfined"},
		},
		"invalid": {
			policyAnnotations: only("localhost/"),
			pod:               `{containers: [{name: c}], securityContext: {seccompProfile: {type: Localhost}}}`,
			reasons: []string{"spec.securityContext.seccompProfile: Forbidden: Localhost is not an allowed seccomp " +
				"profile. Valid values are localhost/"},
		},
	})
	t.Run("not from annotations on updates", func(t *testing.T) {
		d := &draft{pod: annotated(newPod(t, plain), corev1.SeccompPodAnnotationKey, "unconfined")}
		psp := newPSP(t, "policy", "")
		psp.Annotations = only("*")
		if newPolicy(psp).setDefaults(d); d.set != nil {
			t.Errorf("sets %s", d.set)
		}
	})
}

func TestAppArmor(t *testing.T) {
	const plain = `{containers: [{name: c}]}`
	const own = `{containers: [{name: c, securityContext: {appArmorProfile: {type: RuntimeDefault}}}]}`
	const pods = `{containers: [{name: c}], securityContext: {appArmorProfile: {type: RuntimeDefault}}}`
	only := func(profile string) map[string]string { return map[string]string{appArmorAllowed: profile} }
	runSpecTests(t, map[string]specTest{
		"unrestricted":       {pod: own},
		"allowed":            {policyAnnotations: only("runtime/default"), pod: own},
		"allowed, the pod's": {policyAnnotations: only("localhost/x,runtime/default"), pod: pods},
		"required, but not set": {policyAnnotations: only("runtime/default"), pod: plain,
			reasons: []string{"spec.containers[0].securityContext.appArmorProfile: Forbidden: AppArmor profile must " +
				"be set"}},
		"others allowed": {
			policyAnnotations: only("localhost/x,unconfined"), pod: own,
			reasons: []string{`spec.containers[0].securityContext.appArmorProfile: Forbidden: runtime/default is ` +
				`not an allowed profile. Allowed values: "localhost/x,unconfined"`},
		},
		"default": {policyAnnotations: map[string]string{appArmorAllowed: "runtime/default",
			appArmorDefault: "runtime/default"}, pod: plain, becomes: own},
		"default, but the pod has one": {policyAnnotations: map[string]string{appArmorDefault: "localhost/x"},
			pod: pods},
		"default, but an annotation": {policyAnnotations: map[string]string{appArmorDefault: "localhost/x"},
			pod: plain, podAnnotations: map[string]string{appArmorOfC: "unconfined"}},
		"default of a file": {
			policyAnnotations: map[string]string{appArmorDefault: "localhost/x"}, pod: plain,
			becomes: `{containers: [{name: c, securityContext: {appArmorProfile: {type: Localhost, ` +
				`localhostProfile: x}}}]}`,
		},
		// The API server makes the container's field of the annotation, whatever the pod's field
		// says.
		"an annotation before the pod's field": {
			policyAnnotations: only("runtime/default"), pod: pods,
			podAnnotations: map[string]string{appArmorOfC: "unconfined"},
			reasons: []string{`spec.containers[0].securityContext.appArmorProfile: Forbidden: unconfined is not an ` +
				`allowed profile. Allowed values: "runtime/default"`},
		},
		"the field before an annotation": {policyAnnotations: only("runtime/default"), pod: own,
			podAnnotations: map[string]string{appArmorOfC: "unconfined"}},
		"an annotation": {policyAnnotations: only("localhost/x"), pod: plain,
			podAnnotations: map[string]string{appArmorOfC: "localhost/x"}},
	})
}
