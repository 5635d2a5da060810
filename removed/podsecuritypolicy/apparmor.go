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

// appArmorProfiles holds a policy's AppArmor settings.
type appArmorProfiles struct {
	fallback string // the profile of containers that have none; "" for none
	// restricted is false if the policy has no list of allowed profiles, and so allows any.
	restricted bool
	allowed    []string
	listed     string // allowed as the policy lists them
}

func newAppArmorProfiles(annotations map[string]string) appArmorProfiles {
	a := appArmorProfiles{fallback: annotations[policyv1beta1.AppArmorDefaultProfileAnnotation]}
	if a.listed, a.restricted = annotations[policyv1beta1.AppArmorAllowedProfilesAnnotation]; a.restricted {
		a.allowed = strings.Split(a.listed, ",")
	}
	return a
}

// setDefault sets the profile of a container if neither the container, the pod nor an annotation
// has one.
func (a *appArmorProfiles) setDefault(d *draft, at place) {
	if a.fallback == "" || appArmorOf(d.pod, d.container(at)) != "" {
		return
	}
	if of := appArmorField(a.fallback); of != nil {
		d.ofContainer(at, "appArmorProfile").AppArmorProfile = of
	}
}

// check finds fault with a container whose profile is missing or not allowed.
func (a *appArmorProfiles) check(pod *corev1.Pod, c *corev1.Container, at place, found *reasons) {
	if !a.restricted {
		return
	}
	switch profile := appArmorOf(pod, c); {
	case profile == "":
		found.add(field.Forbidden(at.path().Child("appArmorProfile"), "AppArmor profile must be set"))
	case !slices.Contains(a.allowed, profile):
		found.add(field.Forbidden(at.path().Child("appArmorProfile"),
			fmt.Sprintf("%s is not an allowed profile. Allowed values: %q", profile, a.listed)))
	}
}

// appArmorOf returns the profile that a container has in the end, "" for none. When the API server
// stores the pod, it makes a field of the annotation, so a container's annotation counts before the
// pod's field.
func appArmorOf(pod *corev1.Pod, c *corev1.Container) string {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return appArmorName(c.SecurityContext.AppArmorProfile)
	}
	if profile := pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]; profile != "" {
		return profile
	}
	if of := podContext(pod).AppArmorProfile; of != nil {
		return appArmorName(of)
	}
	return ""
}

// appArmorName returns the profile as annotations write it.
func appArmorName(of *corev1.AppArmorProfile) string {
	switch of.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		return corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		if of.LocalhostProfile != nil {
			return corev1.DeprecatedAppArmorBetaProfileNamePrefix + *of.LocalhostProfile
		}
	}
	return string(of.Type) // not valid, and allowed by no policy
}

// appArmorField returns the field for the profile in an annotation, nil if no field can express it.
func appArmorField(profile string) *corev1.AppArmorProfile {
	switch profile {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	if file, ok := strings.CutPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok && file != "" {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &file}
	}
	return nil
}
