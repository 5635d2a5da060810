// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBackupUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	const noEtcd = " has no etcd of its own: there is nothing to save (if the server was started with " +
		"--etcd-servers, save those)"
	for args, test := range map[string]struct {
		want string
		code int
	}{
		"backup": {"gatehouse backup takes one file, or -, got [] (see 'gatehouse backup --help')", ExitUsage},
		"backup a b": {`gatehouse backup takes one file, or -, got ["a" "b"] (see 'gatehouse backup --help')`,
			ExitUsage},
		"restore": {"gatehouse restore takes one file, or -, got [] (see 'gatehouse restore --help')",
			ExitUsage},
		"restore none":           {"the backup can't be read: open none: no such file or directory", ExitUsage},
		"backup a":               {"data directory gatehouse-data" + noEtcd, 1},
		"backup - --data-dir=x":  {"data directory x" + noEtcd, 1},
		"restore - --data-dir=x": {"the backup can't be restored: it is no backup: no archive of gatehouse backup", 1},
	} {
		stdout, stderr, code := runCommand(t, strings.Fields(args)...)
		if stdout != "" || stderr != "gatehouse: "+test.want+"\n" || code != test.code {
			t.Errorf("%s: got %q, %q, exit code %d, want %q, %d", args, stdout, stderr, code, test.want, test.code)
		}
	}
	// What fails leaves nothing, least of all a file that looks like a backup.
	left, err := filepath.Glob(".*")
	more, err2 := filepath.Glob("*")
	if len(left)+len(more) > 0 || err != nil || err2 != nil {
		t.Errorf("they have left %v %v (%v, %v)", left, more, err, err2)
	}
	if err := os.WriteFile("text", []byte(strings.Repeat("text", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runCommand(t, "restore", "text"); code != 1 ||
		!strings.HasPrefix(stderr, "gatehouse: the backup can't be restored: it is no backup") {
		t.Errorf("a text: %q, exit code %d", stderr, code)
	}
	// A file is replaced only if that is asked for, and if there is something to save.
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"backup", "text"}, "text is there already: name another file, or replace it with --force", ExitUsage},
		{[]string{"backup", "text", "--force"}, "data directory gatehouse-data" + noEtcd, 1},
	} {
		_, stderr, code := runCommand(t, test.args...)
		if stderr != "gatehouse: "+test.want+"\n" || code != test.code {
			t.Errorf("%q: got %q, exit code %d, want %q, %d", test.args, stderr, code, test.want, test.code)
		}
	}
	if got, err := os.ReadFile("text"); err != nil || len(got) != 4000 {
		t.Errorf("the file has %d bytes now (%v)", len(got), err)
	}
}
