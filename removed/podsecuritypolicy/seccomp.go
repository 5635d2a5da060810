// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// seccompProfiles holds a policy's seccomp settings.
type seccompProfiles struct {
	fallback string // the profile of pods that have none; "" for none
	allowed  []string
	any      bool
	listed   string // allowed as the policy lists them
}

func newSeccompProfiles(annotations map[string]string) seccompProfiles {
	s := seccompProfiles{
		fallback: annotations[policyv1beta1.SeccompDefaultProfileAnnotation],
		listed:   annotations[policyv1beta1.SeccompAllowedProfilesAnnotation],
	}
	if _, ok := annotations[policyv1beta1.SeccompAllowedProfilesAnnotation]; !ok {
		return s
	}
	for _, profile := range strings.Split(s.listed, ",") {
		switch profile {
		case "*":
			s.any = true
		case corev1.DeprecatedSeccompProfileDockerDefault:
			s.allowed = append(s.allowed, corev1.SeccompProfileRuntimeDefault) // its name today
		default:
			s.allowed = append(s.allowed, profile)
		}
	}
	return s
}

// setDefault sets the pod's profile to the one in the pod's annotation, which was used before there
// was a field, or to the policy's. Containers have it from the pod.
func (s *seccompProfiles) setDefault(d *draft) {
	if podContext(d.pod).SeccompProfile != nil {
		return
	}
	profile := s.fallback
	if asked := d.pod.Annotations[corev1.SeccompPodAnnotationKey]; asked != "" && d.creating {
		profile = asked
	}
	if of := seccompField(profile); of != nil {
		d.ofPod("seccompProfile").SeccompProfile = of
	}
}

// setContainer sets a container's profile to that of its annotation.
func (s *seccompProfiles) setContainer(d *draft, at place) {
	c := d.container(at)
	if !d.creating || c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
		return
	}
	if of := seccompField(d.pod.Annotations[corev1.SeccompContainerAnnotationKeyPrefix+c.Name]); of != nil {
		d.ofContainer(at, "seccompProfile").SeccompProfile = of
	}
}

// checkPod finds fault with a pod's profile that isn't allowed. If the policy allows none, the pod
// must have none.
func (s *seccompProfiles) checkPod(pod *corev1.Pod, found *reasons) {
	s.check(podContext(pod).SeccompProfile, podPath, found)
}

// checkContainer does the same for a container that has its own profile.
func (s *seccompProfiles) checkContainer(c *corev1.Container, at place, found *reasons) {
	if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
		s.check(c.SecurityContext.SeccompProfile, at.path(), found)
	}
}

func (s *seccompProfiles) check(of *corev1.SeccompProfile, context *field.Path, found *reasons) {
	profile := seccompName(of)
	switch {
	case s.any, len(s.allowed) == 0 && of == nil, slices.Contains(s.allowed, profile):
	case len(s.allowed) == 0:
		found.add(field.Forbidden(context.Child("seccompProfile"), "seccomp may not be set"))
	default:
		found.add(field.Forbidden(context.Child("seccompProfile"),
			fmt.Sprintf("%s is not an allowed seccomp profile. Valid values are %v", profile, s.listed)))
	}
}

// seccompName returns the profile as annotations write it, "" for none.
func seccompName(of *corev1.SeccompProfile) string {
	if of == nil {
		return ""
	}
	switch of.Type {
	case corev1.SeccompProfileTypeUnconfined:
		return corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		return corev1.SeccompProfileRuntimeDefault
	case corev1.SeccompProfileTypeLocalhost:
		if of.LocalhostProfile != nil {
			return corev1.SeccompLocalhostProfileNamePrefix + *of.LocalhostProfile
		}
	}
	return string(of.Type) // not valid, and allowed by no policy
}

// seccompField returns the field for the profile in an annotation, nil if no field can express it.
func seccompField(profile string) *corev1.SeccompProfile {
	switch profile {
	case corev1.SeccompProfileNameUnconfined:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if file, ok := strings.CutPrefix(profile, corev1.SeccompLocalhostProfileNamePrefix); ok && file != "" {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &file}
	}
	return nil
}
