// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// namedVersion matches a version like Gatehouse's, on a line that ofGatehouse matches.
	namedVersion = regexp.MustCompile(`(?:^|[^\d.])(0\.\d+\.\d+)(?:\D|$)`)
	ofGatehouse  = regexp.MustCompile(`(?i)gatehouse|VERSION=|rev: v|git tag`)
)

// TestNamedVersions checks that the chart, all documents and examples install the version that docs/trust.md verifies,
// with the Go that the release is built with; and that it is the newest of CHANGELOG.md when that has nothing unreleased.
func TestNamedVersions(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	find := func(name, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(name))
		if found == nil {
			t.Fatalf("%s has no %s", name, pattern)
		}
		return found[1]
	}
	version := find("docs/trust.md", `(?m)^VERSION=(.*)$`)
	if built, named := find("deploy/image/Dockerfile", `golang:([\d.]+)-`), find("docs/trust.md", `GOTOOLCHAIN=go(\S+)`); built != named {
		t.Errorf("docs/trust.md builds with Go %s, deploy/image/Dockerfile with %s", named, built)
	}
	if newest := find("CHANGELOG.md", `(?m)^## (\S+)`); newest != "Unreleased" && newest != version {
		t.Errorf("CHANGELOG.md has %s, docs/trust.md %s", newest, version)
	}
	for _, field := range []string{"version", "appVersion"} {
		if chart := find("deploy/chart/Chart.yaml", `(?m)^`+field+`: (\S+)$`); chart != version {
			t.Errorf("the %s of deploy/chart is %s, docs/trust.md has %s", field, chart, version)
		}
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "README.md", "CONTRIBUTING.md", "docs", "examples/ci").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range strings.Fields(string(out)) {
		if filepath.Ext(name) == ".png" {
			continue
		}
		for line := range strings.Lines(read(name)) {
			if !ofGatehouse.MatchString(line) {
				continue
			}
			for _, found := range namedVersion.FindAllStringSubmatch(line, -1) {
				lines++
				if found[1] != version {
					t.Errorf("%s names version %s instead of %s: %s", name, found[1], version, line)
				}
			}
		}
	}
	if lines < 20 {
		t.Errorf("only %d versions were found", lines)
	}
}
