// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package controlplane_test runs Kubernetes around Gatehouse: kubeadm makes a control plane whose API
// server is Gatehouse, and kube-controller-manager, kube-scheduler and kwok, which plays the nodes,
// work on it. docs/control-plane.md tells users of it.
package controlplane_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
	"gatehouse.dev/test/program"
)

const (
	address      = "10.0.0.1" // the machine's
	node         = "control-plane"
	apiServerPod = "kube-apiserver.yaml"

	// timeout bounds each wait. What is waited for takes seconds; a lease that its holder left
	// without a word takes 15 more.
	timeout = 2 * time.Minute
)

// machineConfig is what kubeadm needs to know here besides the document's configuration: what it would
// find out by itself on a machine with a network, and what is left out.
const machineConfig = `
localAPIEndpoint: {advertiseAddress: ` + address + `}
nodeRegistration: {name: ` + node + `, criSocket: unix:///run/containerd/containerd.sock}
bootstrapTokens: [{token: ` + bootstrapToken + `}]
skipPhases: [preflight, kubelet-start]
`

const bootstrapToken = "abcdef.0123456789abcdef"

// A cluster is the control plane on a machine, and an administrator's client.
type cluster struct {
	*machine
	config *rest.Config
	client kubernetes.Interface
}

func TestControlPlane(t *testing.T) {
	bin := pair.Programs(t.Context(), t, peers.Gatehouse, peers.KubeAPIServer, peers.Etcd, peers.ControllerManager,
		peers.Scheduler, peers.Kubeadm, peers.Kwok)
	if !program.Isolated(t, pair.ProgramsVariable+"="+bin) {
		return
	}
	c := initialize(t, bin)
	steps := []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"The control plane's programs hold their leases", testLeases},
		{"Nodes join by a bootstrap token", testJoin},
		{"Addons run", testAddons},
		{"A Deployment rolls", testDeployment},
		{"Nodes renew their leases", testNodes},
		{"kube-controller-manager's controllers work", testControllers},
		{"A quota is exact beside kube-controller-manager", testQuota},
		{"The API server restarts", func(t *testing.T, c *cluster) { testRestart(t, c, syscall.SIGTERM) }},
		{"The API server is killed", func(t *testing.T, c *cluster) { testRestart(t, c, syscall.SIGKILL) }},
		{"A second API server", testSecond},
		{"kube-apiserver takes over, and gives back", testTakeover},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.test(t, c) }) {
			return // the others need what this one leaves
		}
	}
}

// initialize has kubeadm make a control plane, by the files in the documentation.
func initialize(t *testing.T, programs string) *cluster {
	t.Helper()
	m := startMachine(t, programs)
	files := examples(t, "../../../docs/control-plane.md")
	config := strings.Replace(files["kubeadm.yaml"], "kind: InitConfiguration\n",
		"kind: InitConfiguration"+machineConfig, 1)
	for name, content := range map[string]string{"/kubeadm.yaml": config,
		"/etc/kubernetes/patches/kube-apiserver.yaml": files["patches/kube-apiserver.yaml"]} {
		if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	registered := make(chan error, 1)
	go func() { registered <- m.register(ctx) }()
	output, err := m.command(ctx, "/images/kubernetes/kubeadm", "init", "--config=/kubeadm.yaml").CombinedOutput()
	t.Logf("kubeadm init:\n%s", output)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-registered; err != nil {
		t.Fatal(err)
	}
	return m.cluster(t, "/etc/kubernetes/admin.conf")
}

// cluster returns the cluster as the user of a kubeconfig.
func (m *machine) cluster(t *testing.T, kubeconfig string) *cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", m.path(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // no limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{m, config, client}
}

// register creates the machine's Node as its kubelet would, with the kubelet's credentials.
func (m *machine) register(ctx context.Context) error {
	return eventually(ctx, func(ctx context.Context) error {
		config, err := clientcmd.BuildConfigFromFlags("", m.path("/etc/kubernetes/kubelet.conf"))
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Nodes().Create(ctx, newNode(node), metav1.CreateOptions{})
		return err
	})
}

// newNode is a Node as a kubelet creates it.
func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}}}
}

// examples are the files of a document: blocks of YAML whose first line is a comment with the name.
func examples(t *testing.T, document string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, block := range strings.Split(string(content), "```yaml\n# ")[1:] {
		name, text, _ := strings.Cut(block, "\n")
		text, _, found := strings.Cut(text, "\n```\n")
		if !found {
			t.Fatalf("%s: the block %s has no end", document, name)
		}
		files[name] = text + "\n"
	}
	return files
}

// eventually calls f until it returns nil. It returns f's last error that isn't about the time's end.
func eventually(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var err error
	for {
		now := f(ctx)
		if now == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil && !strings.Contains(now.Error(), "would exceed context deadline") {
			err = now
		}
		select {
		case <-time.After(syncInterval):
		case <-ctx.Done():
			return err
		}
	}
}

// await fails the test if f doesn't return nil in time.
func await(t *testing.T, f func(context.Context) error) {
	t.Helper()
	if err := eventually(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}
