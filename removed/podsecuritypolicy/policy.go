// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/podspec"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// place holds the position of a container in a pod.
type place podspec.Position

// path returns the path of the container's security context.
func (p place) path() *field.Path { return p.container().Child("securityContext") }

func (p place) container() *field.Path { return podspec.Position(p).Path() }

// setDefaults sets what the policy requires or has a default for, if the pod doesn't say it.
func (p *policy) setDefaults(d *draft) {
	p.setPodIDs(d)
	if rule := p.spec.SELinux; rule.Rule == policyv1beta1.SELinuxStrategyMustRunAs &&
		podContext(d.pod).SELinuxOptions == nil {
		d.ofPod("seLinuxOptions").SELinuxOptions = rule.SELinuxOptions.DeepCopy()
	}
	p.seccomp.setDefault(d)
	if class := p.spec.RuntimeClass; class != nil && class.DefaultRuntimeClassName != nil &&
		d.pod.Spec.RuntimeClassName == nil {
		name := *class.DefaultRuntimeClassName
		d.spec(runtimeClassPath).RuntimeClassName = &name
	}
	for position := range podspec.All(&d.pod.Spec) {
		p.setContainerDefaults(d, place(position))
	}
}

func (p *policy) setContainerDefaults(d *draft, at place) {
	p.setContainerIDs(d, at)
	p.seccomp.setContainer(d, at)
	p.appArmor.setDefault(d, at)
	p.setCapabilities(d, at)
	current := effectiveFor(d.pod, d.container(at)).container
	if p.spec.ReadOnlyRootFilesystem && current.ReadOnlyRootFilesystem == nil {
		readOnly := true
		d.ofContainer(at, "readOnlyRootFilesystem").ReadOnlyRootFilesystem = &readOnly
	}
	if current.AllowPrivilegeEscalation == nil {
		allow := p.spec.DefaultAllowPrivilegeEscalation
		if allow == nil && !p.allowsEscalation() {
			allow = p.spec.AllowPrivilegeEscalation
		}
		if allow != nil {
			owned := *allow
			d.ofContainer(at, "allowPrivilegeEscalation").AllowPrivilegeEscalation = &owned
		}
	}
}

// allowsEscalation reports whether the policy allows privilege escalation, which it does if it
// doesn't say.
func (p *policy) allowsEscalation() bool {
	return p.spec.AllowPrivilegeEscalation == nil || *p.spec.AllowPrivilegeEscalation
}

// check returns why the policy doesn't allow the pod.
func (p *policy) check(pod *corev1.Pod) []error {
	var found reasons
	p.checkPodIDs(pod, &found)
	p.seccomp.checkPod(pod, &found)
	if p.spec.SELinux.Rule == policyv1beta1.SELinuxStrategyMustRunAs {
		checkSELinux(p.spec.SELinux.SELinuxOptions, podContext(pod).SELinuxOptions, podPath.Child("seLinuxOptions"),
			&found)
	}
	p.checkHost(pod, &found)
	p.checkSysctls(pod, &found)
	p.checkVolumes(pod, &found)
	p.checkRuntimeClass(pod, &found)
	for position, c := range podspec.All(&pod.Spec) {
		p.checkContainer(pod, c, place(position), &found)
	}
	return found
}

// checkContainer checks what a container says of itself, and what holds for it because the pod says
// it.
func (p *policy) checkContainer(pod *corev1.Pod, c *corev1.Container, at place, found *reasons) {
	e := effectiveFor(pod, c)
	p.checkContainerIDs(e, at, found)
	if p.spec.SELinux.Rule == policyv1beta1.SELinuxStrategyMustRunAs {
		checkSELinux(p.spec.SELinux.SELinuxOptions, e.seLinux(), at.path().Child("seLinuxOptions"), found)
	}
	p.appArmor.check(pod, c, at, found)
	p.seccomp.checkContainer(c, at, found)
	if privileged := e.container.Privileged; !p.spec.Privileged && privileged != nil && *privileged {
		found.add(field.Invalid(at.path().Child("privileged"), true, "Privileged containers are not allowed"))
	}
	p.checkHostProcess(pod, c, at, found)
	p.checkProcMount(e, at, found)
	p.checkCapabilities(e.container.Capabilities, at, found)
	p.checkHostPorts(c, at, found)
	if p.spec.ReadOnlyRootFilesystem {
		switch path := at.path().Child("readOnlyRootFilesystem"); {
		case e.container.ReadOnlyRootFilesystem == nil:
			found.add(field.Invalid(path, nil, "ReadOnlyRootFilesystem may not be nil and must be set to true"))
		case !*e.container.ReadOnlyRootFilesystem:
			found.add(field.Invalid(path, false, "ReadOnlyRootFilesystem must be set to true"))
		}
	}
	if allow := e.container.AllowPrivilegeEscalation; !p.allowsEscalation() && (allow == nil || *allow) {
		found.add(field.Invalid(at.path().Child("allowPrivilegeEscalation"), allow,
			"Allowing privilege escalation for containers is not allowed"))
	}
}

// reasons say why a policy doesn't allow a pod.
type reasons []error

func (r *reasons) add(reason *field.Error) { *r = append(*r, reason) }
