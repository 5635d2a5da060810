package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/test/docs"
)

// readReadme does what the README shows for a cluster of somebody else's, with one.
func readReadme(ctx context.Context, t *testing.T, bin string, p *alone) {
	// which in a cluster a controller makes
	if _, err := p.client.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clone, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	// This module has none of what kubectl needs.
	build := exec.CommandContext(ctx, "go", "build", "-C", clone, "-o", filepath.Join(bin, "kubectl"),
		"k8s.io/kubernetes/cmd/kubectl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building kubectl: %v\n%s", err, out)
	}
	(&docs.Reader{T: t, Dir: clone, Bin: bin, Kubeconfig: p.kubeconfig, Home: p.dir}).Read("../README.md", "cluster")
}

// alone is a kube-apiserver of somebody else's.
type alone struct {
	dir, kubeconfig string
	client          kubernetes.Interface
}

func startAlone(ctx context.Context, t *testing.T, bin string) *alone {
	t.Helper()
	// Not t.TempDir: a socket's path must be short.
	dir, err := os.MkdirTemp("", "alone-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	running, err := start(ctx, subjects[peer], bin, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.stop)
	client, err := kubernetes.NewForConfig(running.config)
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: running.config.Host,
		CertificateAuthorityData: running.config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: running.config.CertData,
		ClientKeyData: running.config.KeyData}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return &alone{dir, file, client}
}
