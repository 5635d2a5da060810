// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
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
	kubectl, err := exec.Command("go", "tool", "-n", "kubectl").Output()
	if err != nil {
		t.Fatalf("building kubectl: %v", err)
	}
	dir := t.TempDir()
	files := []string{"admission.yaml", "imagepolicyconfig.yaml", "good.yaml", "bad.yaml", "exception.yaml"}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"admission.yaml", "imagepolicyconfig.yaml"} {
		if content, err := os.ReadFile(file); err != nil ||
			!strings.Contains(readme, "```text\n"+string(content)+"```\n") {
			t.Errorf("README.md shows another %s: %v", file, err)
		}
	}
	t.Chdir(dir)

	// The backend.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	srv := gatehousetest.Start(t, gatehousetest.WithPlugins("ImagePolicyWebhook"),
		gatehousetest.WithConfig(func(c *server.Config) { c.Admission.ConfigFile = "admission.yaml" }))

	// The commands, and what they print. The test has another port than the reader.
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	_, session, _ := strings.Cut(readme, "$ kubectl")
	for step := range strings.SplitSeq("$ kubectl"+session, "$ ") {
		command, want, found := strings.Cut(step, "\n")
		want, _, _ = strings.Cut(want, "```")
		if !found {
			continue
		}
		// what the README does when the backend has been stopped
		if strings.HasPrefix(command, "kubectl run again") {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		args := strings.Fields(command)
		run := exec.CommandContext(t.Context(), strings.TrimSpace(string(kubectl)), args[1:]...)
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + srv.Kubeconfig}
		out, _ := run.CombinedOutput() // what it prints says whether it failed
		if got := port.ReplaceAllString(string(out), "127.0.0.1:9443"); got != want {
			t.Errorf("$ %s\nprints\n%sREADME.md says\n%s", command, got, want)
		}
	}
}
