// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/test/needs"
)

// The unit is one that systemd takes, and starts a command that there is.
func TestSystemdUnit(t *testing.T) {
	needs.Programs(t, "systemd-analyze")
	unit, err := os.ReadFile("../deploy/systemd/gatehouse.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=\S+/gatehouse (.*)$`).FindSubmatch(unit)
	if start == nil {
		t.Fatal("it starts nothing")
	}
	c, _, err := newRoot(compiled.Plugins).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(regexp.MustCompile(` +`).Split(string(start[1]), -1)); err != nil {
		t.Errorf("%s: %v", start[0], err)
	}
	// systemd wants the program to be there.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "gatehouse.service")
	unit = regexp.MustCompile(`/usr/local/bin/gatehouse serve`).ReplaceAll(unit, []byte(program+" serve"))
	if err := os.WriteFile(copied, unit, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", copied).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
