// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
	"gatehouse.dev/telemetry"
)

// fewPlugins selects the plugins whose chain is timed alone. They look at the namespace only, so
// the time is the chain's own.
var fewPlugins = config.Options{Exact: []string{"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle",
	"NamespaceExists"}}

// A chainCase is a chain to be timed.
type chainCase struct {
	name  string
	extra []plugin.Descriptor // besides the few
}

var chainCases = []chainCase{
	{strings.Join(fewPlugins.Exact, ", "), nil},
	{"… and one more that reads the pod in both phases", []plugin.Descriptor{probeDescriptor("Reads", func(*corev1.Pod) {})}},
	{"… and one more that changes it", []plugin.Descriptor{probeDescriptor("Changes", func(pod *corev1.Pod) {
		n, _ := strconv.Atoi(pod.Labels["n"])
		pod.Labels["n"] = strconv.Itoa(n + 1)
	})}},
}

// timeChain measures both phases of the creation of a pod: the pod in the server's own form, the
// chain with its metrics and with the caches and clients of a server that runs in this process.
func timeChain(b *testing.B, env *plugin.Env, c chainCase) {
	selected, err := fewPlugins.Select(plugins.List)
	if err != nil {
		b.Fatal(err)
	}
	timed, err := chain.New(append(selected, c.extra...), nil, env, telemetry.Metrics())
	if err != nil {
		b.Fatal(err)
	}
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	sent := newPod("web")
	sent.Namespace = namespace
	legacyscheme.Scheme.Default(sent)
	pod := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(sent, pod, nil); err != nil {
		b.Fatal(err)
	}
	interfaces := admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	admin := &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup}}
	b.ReportAllocs()
	for b.Loop() {
		a := admission.NewAttributesRecord(pod, nil, kind, namespace, pod.Name, resource, "", admission.Create,
			&metav1.CreateOptions{}, false, admin)
		if err := timed.Admit(context.Background(), a, interfaces); err != nil {
			b.Fatal(err)
		}
		if err := timed.Validate(context.Background(), a, interfaces); err != nil {
			b.Fatal(err)
		}
	}
}

// probeDescriptor returns a plugin that takes part in both phases, and that calls mutate in the
// first.
func probeDescriptor(name string, mutate func(*corev1.Pod)) plugin.Descriptor {
	return plugin.Descriptor{
		Name:   name,
		Phases: plugin.Mutating | plugin.Validating, Operations: plugin.EveryOperation,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return probe{mutate}, nil },
	}
}

type probe struct{ mutate func(*corev1.Pod) }

func (p probe) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	p.mutate(a.GetObject().(*corev1.Pod))
	return nil
}

func (p probe) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	_ = a.GetObject().(*corev1.Pod)
	return nil
}

// idle is a plugin that admits everything.
type idle struct{}

func (idle) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// withEnv runs a server in this process and calls f with what it offers its plugins.
func withEnv(ctx context.Context, dir string, f func(*plugin.Env) error) error {
	klog.SetLogger(klog.Logger{}) // which writes nothing
	var env *plugin.Env
	// A plugin gets the server's Env when it is built. This one does nothing else.
	look := plugin.Descriptor{
		Name:   "Look",
		Phases: plugin.Validating, Operations: plugin.EveryOperation,
		New: func(_ io.Reader, offered *plugin.Env) (plugin.Plugin, error) {
			env = offered
			return idle{}, nil
		},
	}
	config := server.NewConfig(append([]plugin.Descriptor{look}, plugins.List...))
	config.Admission.Enable = append([]string{look.Name}, measuredPlugins.Enable...)
	config.API.DataDir = dir
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config.API.SecureServing.Listener = listener
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv, err := server.New(ctx, config)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	select {
	case <-srv.Ready():
	case err := <-ended:
		return err
	}
	client, err := kubernetes.NewForConfig(srv.AdminConfig())
	if err != nil {
		return err
	}
	if _, err = client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err == nil {
		err = f(env)
	}
	cancel()
	if stopErr := <-ended; err == nil {
		err = stopErr
	}
	return err
}
