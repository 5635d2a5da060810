// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package denyescalatingexec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// All that is refused is in the table of removed/internal/denyexec; this is what makes the plugin
// the one it is.
func TestPods(t *testing.T) {
	yes := true
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "p"}
	for want, spec := range map[string]corev1.PodSpec{
		"a container using host pid": {HostPID: true},
		"a container using host ipc": {HostIPC: true},
		"a privileged container": {Containers: []corev1.Container{
			{SecurityContext: &corev1.SecurityContext{Privileged: &yes}},
		}},
	} {
		pod := &corev1.Pod{ObjectMeta: meta, Spec: spec}
		plugintest.New(t, Descriptor, "", pod).Validate(t, plugintest.Connect(pod, "exec", &corev1.PodExecOptions{})).
			Refused(t, 403, `pods "p" is forbidden: cannot exec into or attach to `+want)
	}
	harmless := &corev1.Pod{ObjectMeta: meta}
	plugintest.New(t, Descriptor, "", harmless).Validate(t,
		plugintest.Connect(harmless, "attach", &corev1.PodAttachOptions{})).Admitted(t)
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "DenyEscalatingExec takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
