// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse.dev/test/servertest"
)

// A second signal ends a backup whose output nobody reads. The first can't: the backup waits in a
// write.
func TestSecondSignalToBackup(t *testing.T) {
	servertest.AsProcess(t)
	r := startCommand(t, nil, "backup", "-", "--data-dir="+shared().DataDir)
	servertest.Eventually(t, "the pipe to be full", func() bool {
		waiting, err := unix.IoctlGetInt(int(r.stdout.Fd()), unix.TIOCINQ)
		return err == nil && waiting > 60_000
	})
	r.signal(os.Interrupt, syscall.SIGTERM)
	if code := r.code(t, hangs); code != interrupted && code != terminated {
		t.Errorf("it ended with %d", code)
	}
}
