// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package needs says what a test needs besides Go: programs, most often. Where one is missing the
// test is skipped by its name, so that everybody can run all tests; where the environment has
// GATEHOUSE_TEST_ALL, as in CI, it fails instead: there nothing may go untested.
package needs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// All is the environment variable that makes what is missing a failure, whatever its value.
const All = "GATEHOUSE_TEST_ALL"

// Programs skips the test, or fails it, unless all the programs are there.
func Programs(t testing.TB, programs ...string) {
	t.Helper()
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		Missing(t, "programs that are not installed: %s", strings.Join(missing, ", "))
	}
}

// Missing skips the test, or fails it, for lack of what the message says.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(All) != "" {
		t.Fatalf("needs "+format, args...)
	}
	t.Skipf("needs "+format, args...)
}

// Lacking says that a part of the test isn't done, or fails it, for lack of what the message says. The
// test goes on.
func Lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(All) != "" {
		t.Errorf("needs "+format, args...)
		return
	}
	t.Logf("not tested, as it needs "+format, args...)
}

// EachNight is the environment variable with which tests run that take long, and that few changes can break: CI has it
// at night.
const EachNight = "GATEHOUSE_TEST_NIGHTLY"

// Nightly skips a test that runs at night only. It isn't missing then, so All makes no difference.
func Nightly(t testing.TB) {
	t.Helper()
	if os.Getenv(EachNight) == "" {
		t.Skip("runs with " + EachNight + " in the environment, as at night")
	}
}

// leftOut is the reason why a test doesn't run with -short.
const leftOut = "starts a server, which -short leaves out"

// Server skips a test that starts a server if the tests run with -short.
func Server(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(leftOut)
	}
}

// NotShort is called first by the TestMain of a package whose tests start servers. With -short it ends
// the process: none of them runs.
func NotShort() {
	flag.Parse()
	if testing.Short() {
		fmt.Println("every test of this package " + leftOut)
		os.Exit(0)
	}
}
