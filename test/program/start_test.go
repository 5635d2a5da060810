// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// TestThreadsEnd: a program goes on where threads of this process end, the one among them that the
// caller of Start was on.
func TestThreadsEnd(t *testing.T) {
	if os.Getenv("PROGRAM_TEST") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1)) // until its end
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestThreadsEnd$")
	cmd.Env = append(os.Environ(), "PROGRAM_TEST=yes")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	together := make(chan struct{})
	for range 50 {
		all.Add(1)
		go func() {
			runtime.LockOSThread() // and its thread ends
			all.Done()
			<-together
		}()
	}
	all.Wait()
	close(together)

	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if !cmd.ProcessState.Success() {
		t.Errorf("it ended with %s", cmd.ProcessState)
	}
}

func TestNoProgram(t *testing.T) {
	if _, err := Start(exec.Command("/nonexistent")); err == nil {
		t.Error("no error")
	}
}
