// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/removed/apis/initializers"
)

// TestReadme does what the README says, and wants to see what the README shows.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	content, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(content)
	if content, err := os.ReadFile("configuration.yaml"); err != nil ||
		!strings.Contains(readme, "```text\n"+string(content)+"```\n") {
		t.Errorf("README.md shows another configuration.yaml: %v", err)
	}
	kubectl, err := exec.Command("go", "tool", "-n", "kubectl").Output()
	if err != nil {
		t.Fatalf("building kubectl: %v", err)
	}
	srv := gatehousetest.Start(t, gatehousetest.WithPlugins("Initializers"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, srv.Config, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}

	// The commands, and what they print.
	_, session, _ := strings.Cut(readme, "$ kubectl")
	for step := range strings.SplitSeq("$ kubectl"+session, "$ ") {
		command, want, found := strings.Cut(step, "\n")
		want, _, _ = strings.Cut(want, "```")
		if !found {
			continue
		}
		run := exec.CommandContext(t.Context(), strings.TrimSpace(string(kubectl)), strings.Fields(command)[1:]...)
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + srv.Kubeconfig}
		out, _ := run.CombinedOutput() // what it prints says whether it failed
		if got := strings.TrimSuffix(string(out), "\n"); got != strings.TrimSuffix(want, "\n") {
			t.Errorf("$ %s\nprints\n%s\nREADME.md says\n%s", command, out, want)
		}
		if strings.Contains(command, "configuration.yaml") {
			awaitConfiguration(t, kubernetes.NewForConfigOrDie(srv.Config))
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// awaitConfiguration waits for what the README's reader doesn't notice: until the server has seen
// the configuration.
func awaitConfiguration(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1"}}}}
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 2*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			created, err := client.CoreV1().Pods("default").Create(ctx, pod,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil && created.Annotations[initializers.PendingAnnotation] == name, err
		})
	if err != nil {
		t.Fatal(err)
	}
}
