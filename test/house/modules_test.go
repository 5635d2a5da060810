// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os/exec"
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
