// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"go/version"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A module of somebody else's that requires ours can be tidied, built and tested, and the modules
// of ours can be listed. examples/own-plugin and examples/operator-tests are such modules.
func TestModules(t *testing.T) {
	for _, run := range []struct{ dir, command string }{
		{".", "go list -m all"},
		{".", "go mod tidy -diff"},
		{"bench", "go mod tidy -diff"},
		{"test/differential", "go mod tidy -diff"},
		{"hack/tools", "go mod tidy -diff"},
		{"hack/tools/cosign", "go mod tidy -diff"},
		{"site", "go mod tidy -diff"},
		{"examples/operator-tests", "go mod tidy -diff"},
		{"examples/operator-tests", "go vet ./..."},
		{"examples/operator-tests", "go test -vet=off ./..."},
		{"examples/own-plugin", "go mod tidy -diff"},
		{"examples/own-plugin", "go vet ./..."},
		{"examples/own-plugin", "go test -vet=off ./..."},
	} {
		t.Run(run.dir+" "+run.command, func(t *testing.T) {
			args := strings.Fields(run.command)
			command := exec.CommandContext(t.Context(), args[0], args[1:]...)
			command.Dir = root + run.dir
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// toolchainLine matches the line of a go.mod that names the Go for those who build with an older one.
var toolchainLine = regexp.MustCompile(`(?m)^toolchain (go1\.\d+\.\d+)$`)

// TestToolchain checks that all modules name the same Go, which isn't older than that of a release. It also checks that
// CI and the release, which have a Go, never download it.
func TestToolchain(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := toolchainLine.FindStringSubmatch(read("go.mod"))
	if first == nil {
		t.Fatal("go.mod has no toolchain line")
	}
	modules := 0
	for _, file := range tracked(t) {
		if path.Base(file) != "go.mod" {
			continue
		}
		modules++
		if line := toolchainLine.FindStringSubmatch(read(file)); line == nil || line[1] != first[1] {
			t.Errorf("%s: run go mod edit -toolchain=%s, as in the main module", file, first[1])
		}
	}
	if modules < 10 {
		t.Errorf("%d modules", modules)
	}
	released := regexp.MustCompile(`golang:([\d.]+)-`).FindStringSubmatch(read("deploy/image/Dockerfile"))
	if released == nil || version.Compare(first[1], "go"+released[1]) < 0 {
		t.Errorf("go.mod names %s, deploy/image/Dockerfile builds with the newer %v", first[1], released)
	}
	for _, file := range []string{".ci/run", ".ci/nightly", ".github/workflows/release.yml"} {
		if !regexp.MustCompile(`(?m)^\s*(export .*)?GOTOOLCHAIN(=|: )local$`).MatchString(read(file)) {
			t.Errorf("%s doesn't set GOTOOLCHAIN to local", file)
		}
	}
}
