// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package denyexec

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func descriptor(hostNamespaces bool) plugin.Descriptor {
	return plugin.Descriptor{Name: "Example", Phases: plugin.Validating, Operations: Operations,
		Resources: Resources, Access: Access,
		New: New("Example", hostNamespaces)}
}

func pod(change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{{Name: "i"}},
		[]corev1.Container{{Name: "a"}, {Name: "b"}}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

var (
	exec   = plugintest.Connect(pod(nil), "exec", &corev1.PodExecOptions{})
	attach = plugintest.Connect(pod(nil), "attach", &corev1.PodAttachOptions{})
)

// Upstream until 1.20: plugin/pkg/admission/exec, TestAdmission and TestDenyExecOnPrivileged. It
// didn't know ephemeral containers.
func TestPods(t *testing.T) {
	const (
		pid        = "cannot exec into or attach to a container using host pid"
		ipc        = "cannot exec into or attach to a container using host ipc"
		privileged = "cannot exec into or attach to a privileged container"
	)
	yes, no := true, false
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		// with what each of the two plugins refuses it; empty where it admits it
		escalating, privilegedOnly string
	}{
		"harmless": {nil, "", ""},
		"not privileged": {func(
			s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &no}
		}, "", ""},
		"nothing said": {func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = &corev1.SecurityContext{} }, "",
			""},
		"privileged": {func(
			s *corev1.PodSpec) {
			s.Containers[1].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		},
			privileged, privileged},
		"init container": {func(s *corev1.PodSpec) {
			s.InitContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}, privileged, privileged},
		"ephemeral container": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					SecurityContext: &corev1.SecurityContext{Privileged: &yes},
				},
			}}
		}, privileged, privileged},
		"host PID":     {func(s *corev1.PodSpec) { s.HostPID = true }, pid, ""},
		"host IPC":     {func(s *corev1.PodSpec) { s.HostIPC = true }, ipc, ""},
		"host network": {func(s *corev1.PodSpec) { s.HostNetwork = true }, "", ""},
		"all of them": {func(s *corev1.PodSpec) {
			s.HostPID, s.HostIPC = true, true
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}, pid, privileged},
	} {
		t.Run(name, func(t *testing.T) {
			for hostNamespaces, refused := range map[bool]string{true: test.escalating, false: test.privilegedOnly} {
				subject := plugintest.New(t, descriptor(hostNamespaces), "", pod(test.change))
				for _, request := range []plugintest.Request{exec, attach} {
					if result := subject.Validate(t, request); refused == "" {
						result.Admitted(t)
					} else {
						result.Refused(t, 403, `pods "p" is forbidden: `+refused)
					}
				}
			}
		})
	}
}

func TestThePodIsReadLive(t *testing.T) {
	subject := plugintest.New(t, descriptor(true), "", pod(nil))
	subject.Validate(t, exec).Admitted(t)
	if err := subject.Client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"),
		pod(func(s *corev1.PodSpec) { s.HostPID = true }), "ns"); err != nil {
		t.Fatal(err)
	}
	subject.Validate(t, exec).Refused(t, 403,
		`pods "p" is forbidden: cannot exec into or attach to a container using host pid`)
	if calls := subject.Calls(); !slices.Equal(calls, []string{"get pods ns/p", "get pods ns/p"}) {
		t.Errorf("got %q", calls)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	subject := plugintest.New(t, descriptor(true), "")
	subject.Validate(t, exec).Refused(t, 404, `pods "p" not found`)
	subject.Client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("etcd is away")
	})
	subject.Validate(t, exec).Refused(t, 403, `pods "p" is forbidden: etcd is away`)
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, descriptor(true), "")
	for _, request := range []plugintest.Request{
		plugintest.Connect(pod(nil), "portforward", &corev1.PodPortForwardOptions{}),
		plugintest.Connect(pod(nil), "proxy", &corev1.PodProxyOptions{}),
		plugintest.Connect(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "proxy", &corev1.NodeProxyOptions{}),
		plugintest.Create(pod(nil)), plugintest.Update(pod(nil), pod(nil)), plugintest.Delete(pod(nil)),
	} {
		if result := subject.Validate(t, request).Admitted(t); result.Handled {
			t.Errorf("the plugin is called for %s of %s/%s", request.Operation, request.Resource.Resource,
				request.Subresource)
		}
	}
	if calls := subject.Calls(); len(calls) > 0 {
		t.Errorf("got %q", calls)
	}
}

func TestNew(t *testing.T) {
	if _, err := New("Example", true)(nil, &plugin.Env{}); err == nil || err.Error() != "Example needs a client" {
		t.Errorf("got %v", err)
	}
	if _, err := New("Example", true)(strings.NewReader("a: b"), &plugin.Env{}); err == nil ||
		err.Error() != "Example takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
