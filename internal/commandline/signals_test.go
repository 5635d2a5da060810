// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// waiting is in the environment of a process that TestUntilSignal starts.
const waiting = "GATEHOUSE_TEST_UNTIL_SIGNAL"

// TestUntilSignal starts processes that go on after the first signal for as long as their standard
// input does.
func TestUntilSignal(t *testing.T) {
	if os.Getenv(waiting) != "" {
		ctx := UntilSignal()
		fmt.Println("up")
		<-ctx.Done()
		fmt.Println("told to stop")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(7)
	}
	for name, test := range map[string]struct {
		atOnce []os.Signal
		then   os.Signal // sent again and again, once the process has been told to stop
		want   int
	}{
		"an interrupt":               {[]os.Signal{os.Interrupt}, nil, 7},
		"two interrupts":             {[]os.Signal{os.Interrupt}, os.Interrupt, 130},
		"two SIGTERMs":               {[]os.Signal{syscall.SIGTERM}, syscall.SIGTERM, 143},
		"an interrupt and a SIGTERM": {[]os.Signal{os.Interrupt}, syscall.SIGTERM, 143},
		// As timeout(1) does.
		"one that is sent twice": {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM}, nil, 7},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				got, took := endOf(t, test.atOnce, test.then)
				// A busy machine may deliver the second signal too late to count as the first.
				if late := len(test.atOnce) > 1 && took > sentTwice; got != test.want && !late {
					t.Fatalf("it ended with %d, want %d", got, test.want)
				}
			}
		})
	}
}

// endOf is the exit code of a process that gets signals, and how long after the first it ends.
func endOf(t *testing.T, atOnce []os.Signal, then os.Signal) (code int, took time.Duration) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run=^TestUntilSignal$")
	c.Env = append(os.Environ(), waiting+"=yes")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // it is up
	began := time.Now()
	for _, s := range atOnce {
		if err := c.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	lines.Scan() // it is told to stop
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // the exit code tells
	}()
	for then != nil && c.Process.Signal(then) == nil {
		runtime.Gosched()
	}
	in.Close()
	<-ended
	return c.ProcessState.ExitCode(), time.Since(began)
}
