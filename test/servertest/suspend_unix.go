// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servertest

import (
	"syscall"
	"testing"
)

// Suspend stops the process without ending it, and returns when none of its threads runs. SIGCONT continues it.
func (p *Process) Suspend(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			t.Fatal(err)
		case status.Stopped():
			return
		default:
			t.Fatalf("the process has ended: %v", status)
		}
	}
}
