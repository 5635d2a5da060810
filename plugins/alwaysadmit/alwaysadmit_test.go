// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package alwaysadmit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func TestEveryRequestIsAdmitted(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"create":         plugintest.Create(pod),
		"update":         plugintest.Update(pod, pod),
		"delete":         plugintest.Delete(pod),
		"connect":        plugintest.Connect(pod, "exec", &corev1.PodExecOptions{}),
		"cluster-scoped": plugintest.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
		"dry run":        plugintest.Create(pod).AsDryRun(),
	} {
		t.Run(name, func(t *testing.T) {
			for _, result := range []plugintest.Result{subject.Admit(t, request), subject.Validate(t, request)} {
				if result.Admitted(t); !result.Handled || result.Changed {
					t.Errorf("handled %t, changed %t", result.Handled, result.Changed)
				}
			}
		})
	}
}

func TestItIsOffAndDeprecated(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated == "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

func TestAConfigurationIsRefused(t *testing.T) {
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "AlwaysAdmit takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
