// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package alwaysdeny

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func TestEveryRequestIsRefused(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	unnamed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "p-"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		request plugintest.Request
		about   string
	}{
		"create":         {plugintest.Create(pod), `pods "p"`},
		"generated name": {plugintest.Create(unnamed), `pods "p-"`},
		"update":         {plugintest.Update(pod, pod), `pods "p"`},
		"delete":         {plugintest.Delete(pod), `pods "p"`},
		"connect":        {plugintest.Connect(pod, "exec", &corev1.PodExecOptions{}), `pods "p"`},
		"cluster-scoped": {plugintest.Create(node), `nodes "n"`},
		"dry run":        {plugintest.Create(pod).AsDryRun(), `pods "p"`},
	} {
		t.Run(name, func(t *testing.T) {
			message := test.about + " is forbidden: admission control is denying all modifications"
			subject.Admit(t, test.request).Refused(t, 403, message)
			subject.Validate(t, test.request).Refused(t, 403, message)
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
	if err == nil || err.Error() != "AlwaysDeny takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
