// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosts runs what other hosts than a shell run of Gatehouse: the GitHub action, the hooks of
// pre-commit, and the examples for CI systems.
package hosts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
)

// pod is the manifest of a pod, which is refused if its image is empty.
const pod = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: %s}]}
`

var (
	// bin is a directory with the program.
	bin   string
	built = sync.OnceValue(func() error {
		_, err := program.BuildGatehouse(context.Background(), bin)
		return err
	})
)

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "gatehouse-hosts-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// build builds the program, unless another test has built it.
func build(t *testing.T) {
	t.Helper()
	needs.Server(t)
	if err := built(); err != nil {
		t.Fatal(err)
	}
}

// root returns the repository's directory.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
