// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package site_test builds the documentation site, and reads it: all its pages and links as text, and its
// pages in a real Chromium. To look at it, have it take pictures into a directory:
//
//	GATEHOUSE_SITE_PICTURES=/tmp/pictures go test ./test/site -run=TestEverybody
package site_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gatehouse.dev/test/needs"
)

const root = "../.."

// built is the directory of the site, which all tests read.
var built string

func TestMain(m *testing.M) {
	needs.NotShort()
	directory, err := os.MkdirTemp("", "site")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	built = directory
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	if err := remember(); err != nil {
		return err
	}
	program := filepath.Join(built, "program")
	compile := exec.Command("go", "build", "-o", program, ".")
	compile.Dir = root + "/site"
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("go build of site: %w\n%s", err, out)
	}
	// The newest release is built twice, so that rebuilding a version is tested too.
	for _, args := range [][]string{{"-version=v0.2.0"}, {"-version=main", "-directory=main"},
		{"-version=v0.1.0", "-directory=v0.1"}, {"-version=v0.2.0"}} {
		run := exec.Command(program, append(args, "-into="+built+"/site")...)
		run.Dir = root + "/site"
		if out, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("site %q: %w\n%s", args, err, out)
		}
	}
	return nil
})

// remember looks at the files that the site is made of, so that go test doesn't use the result of other
// ones.
func remember() error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md" && !strings.HasPrefix(path, root+"/site/"):
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
}

// site returns the directory of a site with three versions.
func site(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return built + "/site"
}
