// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"gatehouse.dev/plugins"
)

// asProgram is the environment variable with which the binary of the tests is the program gatehouse.
const asProgram = "GATEHOUSE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		Main(plugins.List)
	}
	os.Exit(m.Run())
}

// runProgram is runCommand in a process of its own, for commands that change what holds for a process:
// its feature gates and the version that it emulates.
func runProgram(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := program(t, args...)
	c.Stdout, c.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

// program returns the command gatehouse as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), executable, args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}
