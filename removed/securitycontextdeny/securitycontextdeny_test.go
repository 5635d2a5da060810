// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package securitycontextdeny

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

var (
	id      = int64(1)
	yes     = true
	seLinux = &corev1.SELinuxOptions{}
)

func pod(of *corev1.PodSecurityContext) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{
			SecurityContext: of,
			InitContainers:  []corev1.Container{{Name: "i0"}, {Name: "i1"}},
			Containers:      []corev1.Container{{Name: "c0"}, {Name: "c1"}},
		},
	}
}

func with(change func(*corev1.PodSpec)) *corev1.Pod {
	p := pod(nil)
	change(&p.Spec)
	return p
}

func withEphemeral(p *corev1.Pod, contexts ...*corev1.SecurityContext) *corev1.Pod {
	p = p.DeepCopy()
	for _, c := range contexts {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers,
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e",
				SecurityContext: c}})
	}
	return p
}

// Upstream until 1.29: plugin/pkg/admission/securitycontext/scdeny, whose messages have the names
// of Go fields, and one of them.
func TestCreate(t *testing.T) {
	for name, test := range map[string]struct {
		given *corev1.Pod
		want  string // what is forbidden; empty where nothing is
	}{
		"nothing":          {pod(nil), ""},
		"empty":            {pod(&corev1.PodSecurityContext{}), ""},
		"what is harmless": {pod(&corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsGroup: &id}), ""},
		"supplemental groups": {pod(&corev1.PodSecurityContext{SupplementalGroups: []int64{1}}),
			"spec.securityContext.supplementalGroups is forbidden"},
		"an empty list of them": {pod(&corev1.PodSecurityContext{SupplementalGroups: []int64{}}),
			"spec.securityContext.supplementalGroups is forbidden"},
		"SELinux options": {pod(&corev1.PodSecurityContext{SELinuxOptions: seLinux}),
			"spec.securityContext.seLinuxOptions is forbidden"},
		"user": {pod(&corev1.PodSecurityContext{RunAsUser: &id}),
			"spec.securityContext.runAsUser is forbidden"},
		"group of volumes": {pod(&corev1.PodSecurityContext{FSGroup: &id}),
			"spec.securityContext.fsGroup is forbidden"},
		"harmless in a container": {with(func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsGroup: &id,
				Privileged: &yes}
		}), ""},
		"user of a container": {with(func(s *corev1.PodSpec) {
			s.Containers[1].SecurityContext = &corev1.SecurityContext{RunAsUser: &id}
		}), "spec.containers[1].securityContext.runAsUser is forbidden"},
		"SELinux options of a container": {with(func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{SELinuxOptions: seLinux}
		}), "spec.containers[0].securityContext.seLinuxOptions is forbidden"},
		"of an init container": {with(func(s *corev1.PodSpec) {
			s.InitContainers[1].SecurityContext = &corev1.SecurityContext{RunAsUser: &id}
		}), "spec.initContainers[1].securityContext.runAsUser is forbidden"},
		"everything is named": {with(func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1}, SELinuxOptions: seLinux,
				RunAsUser: &id, FSGroup: &id}
			s.Containers[0].SecurityContext = &corev1.SecurityContext{SELinuxOptions: seLinux, RunAsUser: &id}
		}),
			"[spec.securityContext.supplementalGroups is forbidden, spec.securityContext.seLinuxOptions is " +
				"forbidden, " +
				"spec.securityContext.runAsUser is forbidden, spec.securityContext.fsGroup is forbidden, " +
				"spec.containers[0].securityContext.seLinuxOptions is forbidden, " +
				"spec.containers[0].securityContext.runAsUser is forbidden]"},
	} {
		t.Run(name, func(t *testing.T) {
			result := plugintest.New(t, Descriptor, "").Validate(t, plugintest.Create(test.given))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, `pods "p" is forbidden: `+test.want)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	user := pod(&corev1.PodSecurityContext{RunAsUser: &id})
	fine, bad := &corev1.SecurityContext{RunAsNonRoot: &yes}, &corev1.SecurityContext{RunAsUser: &id}

	subject.Validate(t, plugintest.Update(pod(nil), pod(nil))).Admitted(t)
	subject.Validate(t, plugintest.Update(user, user)).Admitted(t)
	subject.Validate(t, plugintest.Update(user, pod(nil))).Refused(t, 403,
		`pods "p" is forbidden: spec.securityContext.runAsUser is forbidden`)

	debug := func(p, stored *corev1.Pod) plugintest.Request {
		return plugintest.Update(p, stored).On("pods", "ephemeralcontainers")
	}
	subject.Validate(t, debug(withEphemeral(pod(nil), fine), pod(nil))).Admitted(t)
	subject.Validate(t, debug(withEphemeral(user, fine), user)).Admitted(t)
	subject.Validate(t, debug(withEphemeral(user, bad), withEphemeral(user, bad))).Admitted(t)
	subject.Validate(t, debug(withEphemeral(user, bad, bad), withEphemeral(user, bad))).
		Refused(t, 403, `pods "p" is forbidden: spec.ephemeralContainers[1].securityContext.runAsUser is forbidden`)
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	user := pod(&corev1.PodSecurityContext{RunAsUser: &id})
	for _, request := range []plugintest.Request{
		plugintest.Update(user, pod(nil)).On("pods", "status"),
		plugintest.Update(user, pod(nil)).On("pods", "resize"),
		plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		plugintest.Create(&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: user.Spec}}),
		plugintest.Delete(user),
		plugintest.Connect(user, "exec", &corev1.PodExecOptions{}),
	} {
		subject.Validate(t, request).Admitted(t)
	}
	subject.Validate(t, plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).Refused(t, 400,
		"SecurityContextDeny: the object of a request for pods is a *v1.ConfigMap")
	subject.Validate(t, plugintest.Update(user, &corev1.ConfigMap{})).Refused(t, 400,
		"SecurityContextDeny: the object of a request for pods is a *v1.ConfigMap")
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "SecurityContextDeny takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
