// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse.dev/test/servertest"
)

// A signal ends a backup whose output nobody reads, although it waits in a write.
func TestSignalToBackup(t *testing.T) {
	servertest.AsProcess(t)
	r := startCommand(t, nil, "backup", "-", "--data-dir="+shared().DataDir)
	servertest.Eventually(t, "the pipe to be full", func() bool {
		waiting, err := unix.IoctlGetInt(int(r.stdout.Fd()), unix.TIOCINQ)
		return err == nil && waiting > 60_000
	})
	r.signal(os.Interrupt)
	if code := r.code(t, hangs); code != 1 || r.stderr.String() != "gatehouse: interrupted before it was done\n" {
		t.Errorf("it ended with %d and said %s", code, r.stderr)
	}
}
