// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/docs"
	"gatehouse.dev/test/peers"
)

// readReadme runs the README's commands for an existing cluster, with a kube-apiserver.
func readReadme(ctx context.Context, t *testing.T, bin string, p *plainServer) {
	// In a cluster a controller makes it.
	if _, err := p.client.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// kubectl's dependencies are not in this module.
	build := exec.CommandContext(ctx, "go", "build", "-C", clone, "-o", filepath.Join(bin, "kubectl"),
		"k8s.io/kubernetes/cmd/kubectl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building kubectl: %v\n%s", err, out)
	}
	(&docs.Reader{T: t, Dir: clone, Bin: bin, Kubeconfig: p.kubeconfig, Home: p.dir}).Read("../../README.md", "cluster")
}

// A plainServer is a kube-apiserver without anything of Gatehouse's.
type plainServer struct {
	dir, kubeconfig string
	client          kubernetes.Interface
}

func startPlainServer(ctx context.Context, t *testing.T, bin string) *plainServer {
	t.Helper()
	running := startKubeAPIServer(ctx, t, bin)
	client, err := kubernetes.NewForConfig(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := running.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return &plainServer{running.Dir, kubeconfig, client}
}

// startKubeAPIServer starts a kube-apiserver with the plugins that are on by default.
func startKubeAPIServer(ctx context.Context, t *testing.T, bin string) *peers.Server {
	t.Helper()
	names := pair.PluginNames(t, nil)
	return pair.StartProcesses(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunKubeAPIServer(ctx, names)
	})
}
