package podsecuritypolicy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1beta1 "gatehouse.dev/apis/policy/v1beta1"
)

// appArmorProfiles are a policy's AppArmor settings.
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

// setDefault sets the profile of a container that has none, its own, the pod's or in an annotation.
func (a *appArmorProfiles) setDefault(d *draft, at place) {
	if a.fallback == "" || appArmorOf(d.pod, d.container(at)) != "" {
		return
	}
	if of := appArmorField(a.fallback); of != nil {
		d.ofContainer(at, "appArmorProfile").AppArmorProfile = of
	}
}

// check wants the profile of a container to be allowed, and not to be missing.
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

// appArmorOf is the profile that a container has in the end, "" for none. The API server makes a
// field of the annotation when it stores the pod, so a container's annotation counts before the
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

// appArmorName is the profile as annotations write it.
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

// appArmorField is the field for what an annotation says, nil for what it can't say.
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
