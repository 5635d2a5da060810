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

// checkHost checks the use of the node's namespaces. The paths in its messages are upstream's:
// Kubernetes once had these fields in the security context.
func (p *policy) checkHost(pod *corev1.Pod, found *reasons) {
	if pod.Spec.HostNetwork && !p.spec.HostNetwork {
		found.add(field.Invalid(podPath.Child("hostNetwork"), true, "Host network is not allowed to be used"))
	}
	if pod.Spec.HostPID && !p.spec.HostPID {
		found.add(field.Invalid(podPath.Child("hostPID"), true, "Host PID is not allowed to be used"))
	}
	if pod.Spec.HostIPC && !p.spec.HostIPC {
		found.add(field.Invalid(podPath.Child("hostIPC"), true, "Host IPC is not allowed to be used"))
	}
}

// checkHostPorts checks the use of the node's ports.
func (p *policy) checkHostPorts(c *corev1.Container, at place, found *reasons) {
	for _, port := range c.Ports {
		if port.HostPort > 0 && !slices.ContainsFunc(p.spec.HostPorts, func(r policyv1beta1.HostPortRange) bool {
			return r.Min <= port.HostPort && port.HostPort <= r.Max
		}) {
			found.add(field.Invalid(at.container().Child("hostPort"), port.HostPort,
				fmt.Sprintf("Host port %d is not allowed to be used. Allowed ports: [%s]", port.HostPort,
					portRanges(p.spec.HostPorts))))
		}
	}
}

func portRanges(ranges []policyv1beta1.HostPortRange) string {
	var all []string
	for _, r := range ranges {
		if r.Min == r.Max {
			all = append(all, fmt.Sprint(r.Min))
		} else {
			all = append(all, fmt.Sprintf("%d-%d", r.Min, r.Max))
		}
	}
	return strings.Join(all, ",")
}

// checkHostProcess checks Windows containers that run as processes of the node, as privileged ones
// do on Linux. 1.24 had no field for it: a policy that allows privileged containers allows these.
func (p *policy) checkHostProcess(pod *corev1.Pod, c *corev1.Container, at place, found *reasons) {
	windows := podContext(pod).WindowsOptions
	hostProcess := windows != nil && windows.HostProcess != nil && *windows.HostProcess
	if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
		if own := c.SecurityContext.WindowsOptions.HostProcess; own != nil {
			hostProcess = *own
		}
	}
	if hostProcess && !p.spec.Privileged {
		found.add(field.Invalid(at.path().Child("windowsOptions", "hostProcess"), true,
			"Privileged containers are not allowed"))
	}
}

// checkProcMount checks the type of the /proc mount. The default type hides what could do harm;
// other types show more.
func (p *policy) checkProcMount(e effectiveContext, at place, found *reasons) {
	mount := corev1.DefaultProcMount
	if e.container.ProcMount != nil {
		mount = *e.container.ProcMount
	}
	allowed := slices.Contains(p.spec.AllowedProcMountTypes, mount)
	if len(p.spec.AllowedProcMountTypes) == 0 {
		allowed = mount == corev1.DefaultProcMount
	}
	if !allowed {
		found.add(field.Invalid(at.path().Child("procMount"), mount, "ProcMountType is not allowed"))
	}
}

var runtimeClassPath = field.NewPath("spec", "runtimeClassName")

func (p *policy) checkRuntimeClass(pod *corev1.Pod, found *reasons) {
	rule, class := p.spec.RuntimeClass, pod.Spec.RuntimeClassName
	if rule == nil || class == nil || slices.Contains(rule.AllowedRuntimeClassNames, *class) ||
		slices.Contains(rule.AllowedRuntimeClassNames, policyv1beta1.AllowAllRuntimeClassNames) {
		return
	}
	found.add(field.Invalid(runtimeClassPath, *class,
		"must be one of the runtime classes that are allowed: ["+strings.Join(rule.AllowedRuntimeClassNames, ",")+"]"))
}
