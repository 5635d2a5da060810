// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	api "k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// This is the validation of Kubernetes 1.24 (pkg/apis/policy/validation), with its messages. A few
// of its paths named no field; here they do.

// volumeTypes are all types of volumes, and the one that stands for any, in the order in which
// messages list them.
var volumeTypes = slices.Sorted(slices.Values([]policyv1beta1.FSType{
	policyv1beta1.AzureFile, policyv1beta1.Flocker, policyv1beta1.FlexVolume, policyv1beta1.HostPath,
	policyv1beta1.EmptyDir,
	policyv1beta1.GCEPersistentDisk, policyv1beta1.AWSElasticBlockStore, policyv1beta1.GitRepo, policyv1beta1.Secret,
	policyv1beta1.NFS,
	policyv1beta1.ISCSI, policyv1beta1.Glusterfs, policyv1beta1.PersistentVolumeClaim, policyv1beta1.RBD,
	policyv1beta1.Cinder,
	policyv1beta1.CephFS, policyv1beta1.DownwardAPI, policyv1beta1.FC, policyv1beta1.ConfigMap,
	policyv1beta1.VsphereVolume,
	policyv1beta1.Quobyte, policyv1beta1.AzureDisk, policyv1beta1.PhotonPersistentDisk, policyv1beta1.StorageOS,
	policyv1beta1.Projected,
	policyv1beta1.PortworxVolume, policyv1beta1.ScaleIO, policyv1beta1.CSI, policyv1beta1.Ephemeral,
	policyv1beta1.Image, policyv1beta1.All,
}))

// validatePodSecurityPolicy validates all but the metadata that every object has.
func validatePodSecurityPolicy(policy *policyv1beta1.PodSecurityPolicy) field.ErrorList {
	spec, path := &policy.Spec, field.NewPath("spec")
	all := validateProfileAnnotations(policy.Annotations, field.NewPath("metadata", "annotations"))
	all = append(all, validateRunAsUser(spec.RunAsUser, path.Child("runAsUser"))...)
	all = append(all, validateRunAsGroup(spec.RunAsGroup, path.Child("runAsGroup"))...)
	all = append(all, validateRule(spec.SELinux.Rule, path.Child("seLinux", "rule"),
		policyv1beta1.SELinuxStrategyMustRunAs, policyv1beta1.SELinuxStrategyRunAsAny)...)
	all = append(all, validateRule(spec.SupplementalGroups.Rule, path.Child("supplementalGroups", "rule"),
		policyv1beta1.SupplementalGroupsStrategyMayRunAs, policyv1beta1.SupplementalGroupsStrategyMustRunAs,
		policyv1beta1.SupplementalGroupsStrategyRunAsAny)...)
	all = append(all, validateRanges(spec.SupplementalGroups.Ranges, path.Child("supplementalGroups", "ranges"))...)
	all = append(all, validateRule(spec.FSGroup.Rule, path.Child("fsGroup", "rule"),
		policyv1beta1.FSGroupStrategyMayRunAs, policyv1beta1.FSGroupStrategyMustRunAs,
		policyv1beta1.FSGroupStrategyRunAsAny)...)
	all = append(all, validateRanges(spec.FSGroup.Ranges, path.Child("fsGroup", "ranges"))...)
	for _, volume := range spec.Volumes {
		all = append(all, validateRule(volume, path.Child("volumes"), volumeTypes...)...)
	}
	all = append(all, validateCapabilities(spec, path)...)
	if d := spec.DefaultAllowPrivilegeEscalation; d != nil && *d && spec.AllowPrivilegeEscalation != nil &&
		!*spec.AllowPrivilegeEscalation {
		all = append(all, field.Invalid(path.Child("defaultAllowPrivilegeEscalation"), *d,
			"Cannot set DefaultAllowPrivilegeEscalation to true without also setting AllowPrivilegeEscalation to true"))
	}
	for i, mount := range spec.AllowedProcMountTypes {
		if err := corevalidation.ValidateProcMountType(path.Child("allowedProcMountTypes").Index(i),
			api.ProcMountType(mount)); err != nil {
			all = append(all, err)
		}
	}
	all = append(all, validateHostPaths(spec.AllowedHostPaths, path.Child("allowedHostPaths"))...)
	for i, volume := range spec.AllowedFlexVolumes {
		if volume.Driver == "" {
			all = append(all,
				field.Required(path.Child("allowedFlexVolumes").Index(i).Child("driver"), "must specify a driver"))
		}
	}
	for i, driver := range spec.AllowedCSIDrivers {
		all = append(all, corevalidation.ValidateCSIDriverName(driver.Name,
			path.Child("allowedCSIDrivers").Index(i).Child("name"))...)
	}
	all = append(all, validateSysctls(spec.AllowedUnsafeSysctls, path.Child("allowedUnsafeSysctls"))...)
	all = append(all, validateSysctls(spec.ForbiddenSysctls, path.Child("forbiddenSysctls"))...)
	all = append(all, validateSysctlsDoNotOverlap(spec, path)...)
	return append(all, validateRuntimeClass(spec.RuntimeClass, path.Child("runtimeClass"))...)
}

// validateProfileAnnotations validates the annotations that list seccomp and AppArmor profiles. An
// empty one is as good as none.
func validateProfileAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	appArmor := func(key string, profiles ...string) {
		for _, profile := range profiles {
			if err := corevalidation.ValidateAppArmorProfileFormat(profile); err != nil {
				all = append(all, field.Invalid(path.Key(key), annotations[key], err.Error()))
			}
		}
	}
	seccomp := func(key string, profiles ...string) {
		for _, profile := range profiles {
			all = append(all, corevalidation.ValidateSeccompProfile(profile, path.Key(key))...)
		}
	}
	if profile := annotations[policyv1beta1.AppArmorDefaultProfileAnnotation]; profile != "" {
		appArmor(policyv1beta1.AppArmorDefaultProfileAnnotation, profile)
	}
	if allowed := annotations[policyv1beta1.AppArmorAllowedProfilesAnnotation]; allowed != "" {
		appArmor(policyv1beta1.AppArmorAllowedProfilesAnnotation, strings.Split(allowed, ",")...)
	}
	if profile := annotations[policyv1beta1.SeccompDefaultProfileAnnotation]; profile != "" {
		seccomp(policyv1beta1.SeccompDefaultProfileAnnotation, profile)
	}
	if allowed := annotations[policyv1beta1.SeccompAllowedProfilesAnnotation]; allowed != "" {
		profiles := slices.DeleteFunc(strings.Split(allowed, ","), func(profile string) bool { return profile == "*" })
		seccomp(policyv1beta1.SeccompAllowedProfilesAnnotation, profiles...)
	}
	return all
}

// validateRule wants value to be one of supported.
func validateRule[S ~string](value S, path *field.Path, supported ...S) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

func validateRunAsUser(user policyv1beta1.RunAsUserStrategyOptions, path *field.Path) field.ErrorList {
	all := validateRule(user.Rule, path.Child("rule"),
		policyv1beta1.RunAsUserStrategyMustRunAs, policyv1beta1.RunAsUserStrategyMustRunAsNonRoot,
		policyv1beta1.RunAsUserStrategyRunAsAny)
	return append(all, validateRanges(user.Ranges, path.Child("ranges"))...)
}

func validateRunAsGroup(group *policyv1beta1.RunAsGroupStrategyOptions, path *field.Path) field.ErrorList {
	if group == nil {
		return nil
	}
	switch ranges := path.Child("ranges"); group.Rule {
	case policyv1beta1.RunAsGroupStrategyRunAsAny:
		if len(group.Ranges) != 0 {
			return field.ErrorList{field.Invalid(ranges, group.Ranges, "Ranges must be empty")}
		}
		return nil
	case policyv1beta1.RunAsGroupStrategyMustRunAs, policyv1beta1.RunAsGroupStrategyMayRunAs:
		if len(group.Ranges) == 0 {
			return field.ErrorList{field.Invalid(ranges, group.Ranges, "must provide at least one range")}
		}
		return validateRanges(group.Ranges, ranges)
	}
	return validateRule(group.Rule, path.Child("rule"),
		policyv1beta1.RunAsGroupStrategyMustRunAs, policyv1beta1.RunAsGroupStrategyRunAsAny,
		policyv1beta1.RunAsGroupStrategyMayRunAs)
}

func validateRanges(ranges []policyv1beta1.IDRange, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, r := range ranges {
		if r.Min < 0 {
			all = append(all, field.Invalid(path.Index(i).Child("min"), r.Min, "min cannot be negative"))
		}
		if r.Max < 0 {
			all = append(all, field.Invalid(path.Index(i).Child("max"), r.Max, "max cannot be negative"))
		}
		if r.Min > r.Max {
			all = append(all, field.Invalid(path.Index(i).Child("min"), r.Min, "min cannot be greater than max"))
		}
	}
	return all
}

func validateCapabilities(spec *policyv1beta1.PodSecurityPolicySpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(spec.RequiredDropCapabilities) > 0 &&
		slices.Contains(spec.AllowedCapabilities, policyv1beta1.AllowAllCapabilities) {
		all = append(all, field.Invalid(path.Child("requiredDropCapabilities"), spec.RequiredDropCapabilities,
			"must be empty when all capabilities are allowed by a wildcard"))
	}
	notDropped := func(name string, capabilities []corev1.Capability) {
		for _, capability := range capabilities {
			if slices.Contains(spec.RequiredDropCapabilities, capability) {
				all = append(all, field.Invalid(path.Child(name), capability,
					"capability is listed in "+name+" and requiredDropCapabilities"))
			}
		}
	}
	notDropped("defaultAddCapabilities", spec.DefaultAddCapabilities)
	notDropped("allowedCapabilities", spec.AllowedCapabilities)
	return all
}

func validateHostPaths(paths []policyv1beta1.AllowedHostPath, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, allowed := range paths {
		switch {
		case allowed.PathPrefix == "":
			all = append(all, field.Required(path.Index(i), "is required"))
		case slices.Contains(strings.Split(allowed.PathPrefix, "/"), ".."):
			all = append(all, field.Invalid(path.Index(i), allowed.PathPrefix, "must not contain '..'"))
		}
	}
	return all
}

// sysctlPattern is a sysctl's name, or the beginning of one and a '*'.
const sysctlPattern = "(" + corevalidation.SysctlSegmentFmt + `\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`

var sysctlRegexp = regexp.MustCompile("^" + sysctlPattern + "$")

func validateSysctls(sysctls []string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	any := false
	for i, sysctl := range sysctls {
		switch {
		case sysctl == "":
			all = append(all, field.Invalid(path.Index(i), sysctl, "empty sysctl not allowed"))
		case len(sysctl) > corevalidation.SysctlMaxLength || !sysctlRegexp.MatchString(sysctl):
			all = append(all, field.Invalid(path.Index(i), sysctl,
				fmt.Sprintf("must have at most %d characters and match regex %s", corevalidation.SysctlMaxLength,
					sysctlPattern)))
		case sysctl == "*":
			any = true
		}
	}
	if any && len(sysctls) > 1 {
		all = append(all, field.Forbidden(path, "if '*' is present, must not specify other sysctls"))
	}
	return all
}

// validateSysctlsDoNotOverlap wants no sysctl to be both allowed and forbidden. Of an allowed and a
// forbidden pattern that overlap, the error is at the narrower one.
func validateSysctlsDoNotOverlap(spec *policyv1beta1.PodSecurityPolicySpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, allowed := range spec.AllowedUnsafeSysctls {
		allowedPrefix, allowedIsPattern := strings.CutSuffix(allowed, "*")
		for j, forbidden := range spec.ForbiddenSysctls {
			forbiddenPrefix, forbiddenIsPattern := strings.CutSuffix(forbidden, "*")
			switch {
			case allowed == forbidden, forbiddenIsPattern && strings.HasPrefix(allowedPrefix, forbiddenPrefix):
				all = append(all, field.Invalid(path.Child("allowedUnsafeSysctls").Index(i), allowed,
					"sysctl overlaps with "+forbidden))
			case allowedIsPattern && strings.HasPrefix(forbiddenPrefix, allowedPrefix):
				all = append(all,
					field.Invalid(path.Child("forbiddenSysctls").Index(j), forbidden, "sysctl overlaps with "+allowed))
			}
		}
	}
	return all
}

func validateRuntimeClass(class *policyv1beta1.RuntimeClassStrategyOptions, path *field.Path) field.ErrorList {
	if class == nil {
		return nil
	}
	var all field.ErrorList
	names := path.Child("allowedRuntimeClassNames")
	for i, name := range class.AllowedRuntimeClassNames {
		if name != policyv1beta1.AllowAllRuntimeClassNames {
			all = append(all, corevalidation.ValidateRuntimeClassName(name, names.Index(i))...)
		}
		if slices.Contains(class.AllowedRuntimeClassNames[:i], name) {
			all = append(all, field.Duplicate(names.Index(i), name))
		}
	}
	any := slices.Contains(class.AllowedRuntimeClassNames, policyv1beta1.AllowAllRuntimeClassNames)
	if name := class.DefaultRuntimeClassName; name != nil {
		all = append(all, corevalidation.ValidateRuntimeClassName(*name, path.Child("defaultRuntimeClassName"))...)
		if !any && !slices.Contains(class.AllowedRuntimeClassNames, *name) {
			all = append(all, field.Required(names, fmt.Sprintf("default %q must be allowed", *name)))
		}
	}
	if any && len(class.AllowedRuntimeClassNames) > 1 {
		all = append(all, field.Invalid(names, class.AllowedRuntimeClassNames,
			"if '*' is present, must not specify other RuntimeClass names"))
	}
	return all
}
