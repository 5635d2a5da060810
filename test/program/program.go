// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program builds the programs that tests run, gatehouse, gatehouse-webhook and kubectl, and
// starts programs that end with the test, or in a network and mounts of their own.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Name is the program's file name, in an image's root as elsewhere.
const Name = "gatehouse-webhook"

// building is held by who builds: the next one finds compiled what the first one has.
var building sync.Mutex

// Build builds it into a directory, and is its path.
func Build(ctx context.Context, dir string) (string, error) {
	building.Lock()
	defer building.Unlock()
	// In its own module, so that whoever builds it builds the same.
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "gatehouse.dev").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	file := filepath.Join(dir, Name)
	cmd := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(module)),
		"-tags=grpcnotrace", "-ldflags=-s -w", "-o", file, "./cmd/gatehouse-webhook")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", Name, err, output)
	}
	return file, nil
}

// BuildGatehouse builds gatehouse, puts a link to it into a directory, and returns the link's path. The go command keeps
// the program, once built. To go test, what it is made of is something that the test reads: a result is remembered
// until that changes.
func BuildGatehouse(ctx context.Context, dir string) (string, error) {
	const main = "gatehouse.dev/cmd/gatehouse"
	built, err := tool(ctx, main)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "gatehouse")
	if err := os.Symlink(built, file); err != nil {
		return "", err
	}
	made, err := exec.CommandContext(ctx, "go", "list", "-deps", "-f", `{{with .Module}}{{if .Main}}{{.GoMod}}{{"\n"}}`+
		`{{$.Dir}}{{range $.GoFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}`+
		`{{range $.EmbedFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`, main).Output()
	if err != nil {
		return "", fmt.Errorf("listing what %s is made of: %w", main, err)
	}
	for _, name := range strings.Split(strings.TrimSpace(string(made)), "\n") {
		if _, err := os.Stat(name); err != nil {
			return "", err
		}
	}
	return file, nil
}

// Kubectl is the path of kubectl of the module's own version.
func Kubectl(ctx context.Context) (string, error) { return tool(ctx, "k8s.io/kubernetes/cmd/kubectl") }

// tool returns the path of a tool that go.mod names. The go command builds it the first time, and keeps it.
func tool(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "tool", "-n", name).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("building %s: %w: %s", name, err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// BuildOldestKubectl builds the oldest kubectl that is supported into a directory. It is of a
// module of its own, test/kubectl, whose program is a text: tools that look at this module's Go
// files take no notice of it.
func BuildOldestKubectl(ctx context.Context, dir string) error {
	here, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "gatehouse.dev/test/program").Output()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	from := filepath.Join(strings.TrimSpace(string(here)), "..", "kubectl")
	main := filepath.Join(from, "main.go")
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, main, main+".txt"), 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", from, "-overlay="+overlay, "-o",
		filepath.Join(dir, "kubectl"), ".")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building kubectl: %w: %s", err, output)
	}
	return os.Remove(overlay)
}
