// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os/exec"
	"runtime"
)

// Start starts a program, and closes ended once it has ended and what it writes has arrived; how is
// in cmd.ProcessState. Where the system can, the program is killed when this process ends.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	exited := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		// To Linux, a program's parent is the thread that started it: with that thread the program
		// ends too. A goroutine that locks its thread and returns ends it, whichever that was.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		endWithParent(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState tells
		}
	}()
	return exited, <-started
}
