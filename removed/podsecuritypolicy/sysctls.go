// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componenthelpers "k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls holds the sysctls that affect only the pod, as of the last Kubernetes with
// PodSecurityPolicies. A policy must allow newer ones.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start",
}

var sysctlsPath = field.NewPath("pod", "spec", "securityContext", "sysctls")

// checkSysctls finds fault with sysctls that are forbidden, or that are neither safe nor allowed.
func (p *policy) checkSysctls(pod *corev1.Pod, found *reasons) {
	for i, sysctl := range podContext(pod).Sysctls {
		name := componenthelpers.NormalizeName(sysctl.Name) // kernel/msgmax is kernel.msgmax
		switch {
		case matchesAny(name, p.spec.ForbiddenSysctls):
			found.add(field.Forbidden(sysctlsPath.Index(i), fmt.Sprintf("sysctl %q is not allowed", sysctl.Name)))
		case !slices.Contains(safeSysctls, name) && !matchesAny(name, p.spec.AllowedUnsafeSysctls):
			found.add(field.Forbidden(sysctlsPath.Index(i),
				fmt.Sprintf("unsafe sysctl %q is not allowed", sysctl.Name)))
		}
	}
}

// matchesAny reports whether one of the patterns matches the name. A pattern that ends in '*'
// matches by its prefix, any other only the same name.
func matchesAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}
