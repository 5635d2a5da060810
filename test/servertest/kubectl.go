// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"gatehouse.dev/test/program"
)

// Kubectl is the real one, as the administrator and with a home of its own.
type Kubectl struct {
	// Namespace is where it works unless a command says otherwise.
	Namespace string

	t                testing.TB
	kubeconfig, home string
}

// Kubectl is kubectl in a namespace.
func (c *Cluster) Kubectl(t testing.TB, namespace string) Kubectl {
	t.Helper()
	return Kubectl{namespace, t, c.Kubeconfig, t.TempDir()}
}

// Run runs kubectl with something on its standard input.
func (k Kubectl) Run(stdin string, args ...string) (stdout, stderr string, code int) {
	k.t.Helper()
	binary := KubectlPath(k.t)
	var out, says bytes.Buffer
	cmd := exec.CommandContext(k.t.Context(), binary, append([]string{"--namespace=" + k.Namespace}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "KUBECONFIG=" + k.kubeconfig}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &says
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		k.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), says.String(), cmd.ProcessState.ExitCode()
}

// OK wants the command to succeed, and is what it prints.
func (k Kubectl) OK(stdin string, args ...string) string {
	k.t.Helper()
	stdout, stderr, code := k.Run(stdin, args...)
	if code != 0 {
		k.t.Errorf("kubectl %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// Fails wants the command to fail and to say each of want on its standard error.
func (k Kubectl) Fails(stdin string, args []string, want ...string) {
	k.t.Helper()
	stdout, stderr, code := k.Run(stdin, args...)
	if code == 0 {
		k.t.Errorf("kubectl %s: should fail, and says\n%s%s", strings.Join(args, " "), stdout, stderr)
	}
	for _, text := range want {
		if !strings.Contains(stderr, text) {
			k.t.Errorf("kubectl %s: says\n%sand should say\n%s", strings.Join(args, " "), stderr, text)
		}
	}
}

// KubectlPath is the path of the kubectl that tests use.
func KubectlPath(t testing.TB) string {
	t.Helper()
	path, err := kubectlBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// kubectlBinary asks once for all tests.
var kubectlBinary = sync.OnceValues(func() (string, error) { return program.Kubectl(context.Background()) })
