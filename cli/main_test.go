// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"gatehouse.dev/cmd/gatehouse/compiled"
)

// asProgram is the environment variable with which the binary of the tests is the program gatehouse.
const asProgram = "GATEHOUSE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		Main(compiled.Plugins)
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

// ownProcess is the environment variable of a process that runs one test.
const ownProcess = "GATEHOUSE_TEST_OWN_PROCESS"

// inOwnProcess reports whether the process runs this test alone, and otherwise runs it in such a process. Feature
// gates and the emulated version are the process's, and what one test sets is another one's default.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcess) != "" {
		return true
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", fmt.Sprintf("-update=%t", *update))
	c.Env = append(os.Environ(), ownProcess+"=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}
