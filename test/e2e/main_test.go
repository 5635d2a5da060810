// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e_test drives real processes: the gatehouse binary, the real kubectl, a real etcd.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
)

// buildTimeout is for a build that finds nothing in the build cache.
const buildTimeout = 15 * time.Minute

// binaries are the paths of what TestMain has built.
var binaries struct{ gatehouse, kubectl, etcd string }

// kubernetesVersion is the version of Kubernetes in them, as v1.37.2.
var kubernetesVersion string

func TestMain(m *testing.M) {
	needs.NotShort()
	klog.LogToStderr(false) // clients complain of servers that are killed
	klog.SetOutput(io.Discard)
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	// Who runs the tests again and again gives a directory of their own: what is up to date there
	// isn't linked again.
	dir := os.Getenv("GATEHOUSE_E2E_BIN")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "gatehouse-e2e-"); err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
	}
	if err := buildAll(dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stopShared()) }()
	needs.ManyAtATime()
	return m.Run(), nil
}

func buildAll(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	version, err := kubectlVersion(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var errs [3]error
	build := func(i int, binary *string, name, pkg, ldflags string) {
		*binary = filepath.Join(dir, name)
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", ldflags, "-o", *binary, pkg)
			if out, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("building %s: %w\n%s", pkg, err, out)
			}
		})
	}
	wg.Go(func() { binaries.gatehouse, errs[0] = program.BuildGatehouse(ctx, dir) })
	build(1, &binaries.kubectl, "kubectl", "k8s.io/kubernetes/cmd/kubectl", version)
	build(2, &binaries.etcd, "etcd", "go.etcd.io/etcd/server/v3", "-s -w")
	wg.Wait()
	return errors.Join(errs[:]...)
}

// kubectlVersion are the linker's flags that tell kubectl its version. Kubernetes' own build does
// it so, and without it `kubectl version` fails.
func kubectlVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("the version of k8s.io/kubernetes: %w", err)
	}
	kubernetesVersion = strings.TrimSpace(string(out))
	parts := strings.SplitN(strings.TrimPrefix(kubernetesVersion, "v"), ".", 3)
	set := func(name, value string) string { return " -X k8s.io/component-base/version." + name + "=" + value }
	return "-s -w" + set("gitVersion", kubernetesVersion) + set("gitMajor", parts[0]) + set("gitMinor", parts[1]), nil
}
