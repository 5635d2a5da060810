// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
	files := map[string]string{}
	for _, file := range []string{"admission.yaml", "volume-1.yaml", "volume-3.yaml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[file] = string(content)
		if file != "volume-3.yaml" && !strings.Contains(readme, "```text\n"+string(content)+"```\n") {
			t.Errorf("README.md shows another %s", file)
		}
	}

	// The cloud. The test has another port than the reader.
	dir := t.TempDir()
	t.Chdir(dir)
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func(address string) { ready <- address }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-ready:
		files["admission.yaml"] = strings.ReplaceAll(files["admission.yaml"], "127.0.0.1:9444", address)
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	srv := gatehousetest.Start(t, gatehousetest.WithPlugins("PersistentVolumeLabel"),
		gatehousetest.WithConfig(func(c *server.Config) { c.Admission.ConfigFile = "admission.yaml" }))

	// The commands, and what they print.
	_, session, _ := strings.Cut(readme, "$ kubectl")
	commands := 0
	for step := range strings.SplitSeq("$ kubectl"+session, "$ ") {
		command, want, found := strings.Cut(step, "\n")
		want, _, _ = strings.Cut(want, "```")
		if !found {
			continue
		}
		commands++
		// no shell, no quotes
		run := exec.CommandContext(t.Context(), strings.TrimSpace(string(kubectl)),
			strings.Fields(strings.ReplaceAll(command, "'", ""))[1:]...)
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + srv.Kubeconfig}
		out, _ := run.CombinedOutput() // what it prints says whether it failed
		if string(out) != want {
			t.Errorf("$ %s\nprints\n%sREADME.md says\n%s", command, out, want)
		}
	}
	if commands != 4 {
		t.Errorf("README.md has %d commands", commands)
	}
}
