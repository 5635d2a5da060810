// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package denyexec is the common part of DenyEscalatingExec and DenyExecOnPrivileged: it refuses
// exec into and attach to a pod whose containers have the host's privileges, because its user would
// get these too.
package denyexec

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

var pods = corev1.Resource("pods")

// Operations and Resources hold the requests that such a plugin handles.
var (
	Operations = []admission.Operation{admission.Connect}
	Resources  = plugin.On(pods, "exec", "attach")
	Access     = []rbacv1.PolicyRule{plugin.To("get", "", "pods")}
)

// New returns the New of a plugin's descriptor. Every such plugin refuses privileged containers;
// with hostNamespaces it also refuses pods in the host's PID or IPC namespace. It needs a client: a
// request has only the pod's name, so the pod is read live.
func New(name string, hostNamespaces bool) func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
	return func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Client == nil {
			return nil, errors.New(name + " needs a client")
		}
		return &denier{env.Client.CoreV1(), hostNamespaces}, nil
	}
}

type denier struct {
	pods           corev1client.PodsGetter
	hostNamespaces bool
}

var _ plugin.Validator = &denier{}

// Validate refuses to connect to a pod that has the host's privileges.
func (d *denier) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := d.pods.Pods(a.GetNamespace()).Get(ctx, a.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return err // the request would fail in the same way anyway
	}
	if err != nil {
		return plugin.Unanswered(err, admission.NewForbidden(a, err))
	}
	if err := d.refusal(&pod.Spec); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// refusal returns why exec into the pod is refused, or nil.
func (d *denier) refusal(spec *corev1.PodSpec) error {
	switch {
	case d.hostNamespaces && spec.HostPID:
		return errors.New("cannot exec into or attach to a container using host pid")
	case d.hostNamespaces && spec.HostIPC:
		return errors.New("cannot exec into or attach to a container using host ipc")
	}
	for _, container := range podspec.All(spec) {
		if c := container.SecurityContext; c != nil && c.Privileged != nil && *c.Privileged {
			return errors.New("cannot exec into or attach to a privileged container")
		}
	}
	return nil
}
