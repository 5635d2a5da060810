// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
	namespaces "gatehouse.dev/test/program"
)

// In a container with 64 MB of memory for files, a review takes the disk. If that has no more room, the review
// ends as one that can't judge, and leaves nothing.
func TestReviewWithLittleSpace(t *testing.T) {
	needs.Server(t)
	if !namespaces.CanEnterNamespaces() {
		needs.Missing(t, "root, to mount file systems")
	}
	dir := t.TempDir()
	stated, judged, disk, small := filepath.Join(dir, "state"), filepath.Join(dir, "judged.yaml"),
		filepath.Join(dir, "disk"), filepath.Join(dir, "small")
	files := map[string]string{judged: configMap + "judged}\n"}
	for i := range 40 {
		files[filepath.Join(stated, fmt.Sprint(i, ".yaml"))] = fmt.Sprintf("%sc%d}\ndata: {k: %s}\n", configMap, i,
			strings.Repeat("x", 900_000))
	}
	if err := os.Mkdir(stated, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := namespaces.EnterNamespaces(); err != nil { // the mounts end with the test
		t.Fatal(err)
	}
	for _, name := range []string{disk, small} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/dev/shm", small} {
		if err := unix.Mount("tmpfs", name, "tmpfs", 0, "size=64m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(name, unix.MNT_DETACH) })
	}
	for temporary, code := range map[string]int{disk: review.ExitAdmitted, small: review.ExitFailed} {
		var stdout, stderr bytes.Buffer
		c := program(t, "review", judged, "--state="+stated)
		c.Env, c.Stdout, c.Stderr = append(c.Env, "TMPDIR="+temporary), &stdout, &stderr
		err := c.Run()
		if got := c.ProcessState.ExitCode(); got != code {
			t.Errorf("%s: exit code %d, want %d: %v\n%s%s", temporary, got, code, err, &stdout, &stderr)
		}
		if says := strings.Contains(stderr.String(), "nothing can be judged without it: free space at "); says != (code == review.ExitFailed) {
			t.Errorf("%s: it says %s", temporary, &stderr)
		}
		for _, name := range []string{temporary, "/dev/shm"} {
			if left, err := filepath.Glob(name + "/*"); err != nil || len(left) > 0 {
				t.Errorf("%s: it has left %q, %v", temporary, left, err)
			}
		}
	}
}
