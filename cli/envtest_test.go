// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEnvtest: the folder's path is all that is printed; it has links to the program, and to
// kubectl while there is one.
func TestEnvtest(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	kubectl := filepath.Join(bin, executableName("kubectl"))
	if err := os.WriteFile(kubectl, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for _, path := range []string{bin, t.TempDir(), bin, t.TempDir() + string(os.PathListSeparator) + bin} {
		t.Setenv("PATH", path)
		want := map[string]string{executableName("kube-apiserver"): program, executableName("etcd"): program}
		if strings.Contains(path, bin) {
			want[executableName("kubectl")] = kubectl
		}
		named := filepath.Join(t.TempDir(), "made", "here")
		var cached string
		for _, args := range [][]string{{"envtest"}, {"envtest", named}, {"envtest"}} {
			stdout, stderr, code := runCommand(t, args...)
			dir := strings.TrimSuffix(stdout, "\n")
			if code != 0 || stderr != "" || stdout != dir+"\n" || !filepath.IsAbs(dir) {
				t.Fatalf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
			}
			if len(args) > 1 && dir != named {
				t.Errorf("it printed %s, want %s", dir, named)
			} else if len(args) == 1 {
				if cached != "" && cached != dir {
					t.Errorf("it printed %s, and then %s", cached, dir)
				}
				cached = dir
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) != len(want) {
				t.Errorf("%s has %v, want %v", dir, entries, want)
			}
			for name, leads := range want {
				if got, err := os.Readlink(filepath.Join(dir, name)); got != leads {
					t.Errorf("%s leads to %q (%v), want %s", name, got, err, leads)
				}
			}
		}
	}
	if _, stderr, code := runCommand(t, "envtest", "a", "b"); code != ExitUsage || !strings.Contains(stderr,
		"one folder") {
		t.Errorf("two folders: exit code %d, %s", code, stderr)
	}
}

// Programs that somebody has put into the folder are left alone.
func TestEnvtestLeavesFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, executableName("etcd"))
	if err := os.WriteFile(file, []byte("another"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := runCommand(t, "envtest", dir)
	want := file + " is a file, and no link that gatehouse envtest has made: remove it, or name another folder\n"
	if !strings.HasSuffix(stderr, want) || code == 0 {
		t.Errorf("got %q, exit code %d, want %q", stderr, code, want)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "another" {
		t.Errorf("the file is now %q (%v)", got, err)
	}
}

// The user's own kubectl in the folder stays if there is none on the PATH to take its place. A link
// that envtest has made goes.
func TestEnvtestLeavesKubectl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	kubectl := filepath.Join(dir, executableName("kubectl"))
	if err := os.WriteFile(kubectl, []byte("another"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runCommand(t, "envtest", dir); code != 0 {
		t.Fatalf("got %q, exit code %d", stderr, code)
	}
	if got, err := os.ReadFile(kubectl); err != nil || string(got) != "another" {
		t.Errorf("the file is now %q (%v)", got, err)
	}
	if err := errors.Join(os.Remove(kubectl), os.Symlink("gone", kubectl)); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runCommand(t, "envtest", dir); code != 0 {
		t.Fatalf("got %q, exit code %d", stderr, code)
	}
	if _, err := os.Lstat(kubectl); !os.IsNotExist(err) {
		t.Errorf("the link is still there: %v", err)
	}
}

// TestEtcdForTest: only an etcd that is alone and doesn't care for its data elects itself sooner.
func TestEtcdForTest(t *testing.T) {
	envtests := []string{"etcd", "--data-dir=d", "--listen-client-urls=http://127.0.0.1:1", "--unsafe-no-fsync=true"}
	for extra, want := range map[string]bool{
		"":                             true,
		"--initial-cluster=a=http://b": false,
		"-initial-cluster":             false,
		"--discovery=http://x":         false,
		"--config-file=x":              false,
		"--initial-cluster-token=x":    true,
	} {
		args := envtests
		if extra != "" {
			args = append(slices.Clone(envtests), extra)
		}
		if got := isForTest(args); got != want {
			t.Errorf("%q: %t, want %t", extra, got, want)
		}
	}
	if isForTest(envtests[:3]) {
		t.Error("an etcd that waits for the disk is taken for a test's")
	}
}

// TestVersionOfTheBuild: versions, commit and modules, for a script.
func TestVersionOfTheBuild(t *testing.T) {
	stdout, _, code := runCommand(t, "version", "-o", "json")
	var got build
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, stdout)
	}
	if !strings.HasPrefix(got.Go, "go1.") || !strings.Contains(got.Platform, "/") || got.Gatehouse == "" {
		t.Errorf("it says %+v", got)
	}
	if _, stderr, code := runCommand(t, "version", "-o", "xml"); code != ExitUsage || !strings.Contains(stderr,
		`"xml"`) {
		t.Errorf("-o xml: exit code %d, %s", code, stderr)
	}
	// Source: upstream's k8s.io/component-base/version/verflag.
	for args, want := range map[string]string{
		"--version":              "Kubernetes v1.",
		"--version=true":         "Kubernetes v1.",
		"--version=raw":          "version.Info{Major:",
		"--version=v1.35.0":      "must match major/minor/patch",
		"--version=vx":           "vx",
		"--version=maybe":        "maybe",
		"--version --secure-x=1": "unknown flag: --secure-x",
	} {
		stdout, stderr, _ := runCommand(t, append([]string{"serve"}, strings.Fields(args)...)...)
		if !strings.Contains(stdout+stderr, want) {
			t.Errorf("serve %s says %q, %q, want %q", args, stdout, stderr, want)
		}
	}
}
