// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

// packages are those of controller-runtime whose tests are run. By default they are the two that
// ask most of an API server: envtest itself and the client.
var packages = flag.String("packages", "./pkg/envtest ./pkg/client",
	"the packages of controller-runtime whose tests TestSuite runs; ./... for all")

// offline are tests that fetch another version of Kubernetes from the Internet.
const offline = "^Test(LazyRestMapperProvider|ApiMachinery)$/^aggregatedDiscovery=false$"

// whole is for a module that both trees have, theirs from before its packages went to modules of
// their own, which both have, too.
const whole = "replace google.golang.org/genproto => google.golang.org/genproto v0.0.0-20260128011058-8636f8732409\n"

// TestSuite runs controller-runtime's own tests, as they are in its module, on the binaries of
// `gatehouse envtest`. They are built with the versions of Kubernetes' modules that we have, so
// that most of them are built already.
func TestSuite(t *testing.T) {
	needs.Nightly(t)
	folder := assets(t)
	work := t.TempDir()
	copied := filepath.Join(work, "controller-runtime")
	if err := errors.Join(os.CopyFS(copied, os.DirFS(goList(t, "sigs.k8s.io/controller-runtime"))),
		writable(copied)); err != nil {
		t.Fatal(err)
	}
	workspace := fmt.Sprintf("go 1.26.0\nuse %q\nuse %q\n%s", copied, goList(t, "gatehouse.dev"), whole)
	if err := os.WriteFile(filepath.Join(work, "go.work"), []byte(workspace), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"test", "-count=1", "-skip=" + offline}, strings.Fields(*packages)...)
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = copied
	command.Env = append(os.Environ(), "GOWORK="+filepath.Join(work, "go.work"), "GOFLAGS=",
		"KUBEBUILDER_ASSETS="+folder)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if passed := bytes.Count(append([]byte("\n"), out...), []byte("\nok ")); passed < len(strings.Fields(*packages)) {
		t.Errorf("go %s: only %d packages have passed:\n%s", strings.Join(args, " "), passed, out)
	}
	t.Logf("%s", out)
}

// goList is the directory of a module.
func goList(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// writable makes a copy from the module cache a source tree again: what the cache has may not be
// written, nor are its scripts executable.
func writable(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() || strings.HasSuffix(path, ".sh"):
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
}
