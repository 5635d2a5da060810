package denyexec

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/chaintest"
)

func descriptor(hostNamespaces bool) chain.Descriptor {
	return chain.Descriptor{Name: "Example", Phases: chain.Validating, Access: Access,
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
	exec   = chaintest.Connect(pod(nil), "exec", &corev1.PodExecOptions{})
	attach = chaintest.Connect(pod(nil), "attach", &corev1.PodAttachOptions{})
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
				plugin := chaintest.New(t, descriptor(hostNamespaces), "", pod(test.change))
				for _, request := range []chaintest.Request{exec, attach} {
					if result := plugin.Validate(t, request); refused == "" {
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
	plugin := chaintest.New(t, descriptor(true), "", pod(nil))
	plugin.Validate(t, exec).Admitted(t)
	if err := plugin.Client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"),
		pod(func(s *corev1.PodSpec) { s.HostPID = true }), "ns"); err != nil {
		t.Fatal(err)
	}
	plugin.Validate(t, exec).Refused(t, 403,
		`pods "p" is forbidden: cannot exec into or attach to a container using host pid`)
	if calls := plugin.Calls(); !slices.Equal(calls, []string{"get pods ns/p", "get pods ns/p"}) {
		t.Errorf("got %q", calls)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	plugin := chaintest.New(t, descriptor(true), "")
	plugin.Validate(t, exec).Refused(t, 404, `pods "p" not found`)
	plugin.Client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("etcd is away")
	})
	plugin.Validate(t, exec).Refused(t, 403, `pods "p" is forbidden: etcd is away`)
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	plugin := chaintest.New(t, descriptor(true), "")
	for _, request := range []chaintest.Request{
		chaintest.Connect(pod(nil), "portforward", &corev1.PodPortForwardOptions{}),
		chaintest.Connect(pod(nil), "proxy", &corev1.PodProxyOptions{}),
		chaintest.Connect(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, "proxy", &corev1.NodeProxyOptions{}),
		chaintest.Create(pod(nil)), chaintest.Update(pod(nil), pod(nil)), chaintest.Delete(pod(nil)),
	} {
		if result := plugin.Validate(t,
			request).Admitted(t); result.Handled != (request.Operation == admission.Connect) {
			t.Errorf("%s: handled is %t", request.Operation, result.Handled)
		}
	}
	if calls := plugin.Calls(); len(calls) > 0 {
		t.Errorf("got %q", calls)
	}
}

func TestNew(t *testing.T) {
	if _, err := New("Example", true)(nil, &chain.Env{}); err == nil || err.Error() != "Example needs a client" {
		t.Errorf("got %v", err)
	}
	if _, err := New("Example", true)(strings.NewReader("a: b"), &chain.Env{}); err == nil ||
		err.Error() != "Example takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
