// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package denyexeconprivileged

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
	privileged := &corev1.Pod{ObjectMeta: meta,
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{Privileged: &yes}}},
		}}
	plugintest.New(t, Descriptor, "", privileged).Validate(t,
		plugintest.Connect(privileged, "exec", &corev1.PodExecOptions{})).
		Refused(t, 403, `pods "p" is forbidden: cannot exec into or attach to a privileged container`)
	onHost := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{HostPID: true, HostIPC: true}}
	plugintest.New(t, Descriptor, "", onHost).Validate(t,
		plugintest.Connect(onHost, "attach", &corev1.PodAttachOptions{})).Admitted(t)
}

func TestItIsOffAndDeprecatedAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated == "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "DenyExecOnPrivileged takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
