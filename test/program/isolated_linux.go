// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse.dev/test/needs"
)

// isolated is in the environment of the processes with namespaces of their own.
const isolated = "GATEHOUSE_TEST_ISOLATED"

// Before TestMain: servers that tests share start there. Programs that link the package, such as
// benchmarks, never have the variable.
func init() {
	if os.Getenv(isolated) == "" {
		return
	}
	if err := PrepareNamespaces(); err != nil {
		fmt.Fprintln(os.Stderr, "The test's namespaces:", err)
		os.Exit(1)
	}
}

// Isolated runs a test once more, in a process with a network and mounts of its own, and reports
// whether this is that process. Another process has nothing left to do. The network is as
// EnterNamespaces says. The process gets the environment besides this one's.
func Isolated(t *testing.T, environment ...string) bool {
	t.Helper()
	if os.Getenv(isolated) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		needs.Missing(t, "root, to make namespaces")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// It ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	again := exec.CommandContext(t.Context(), binary,
		"-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	again.Env = append(append(os.Environ(), isolated+"=yes"), environment...)
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig: syscall.SIGKILL}
	output, err := again.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		needs.Missing(t, "the right to make namespaces: %v", err)
	}
	t.Logf("In namespaces of its own:\n%s", output)
	if err != nil {
		t.Error(err)
	}
	return false
}
