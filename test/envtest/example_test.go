// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestExample runs the half of examples/operator-tests that needs envtest's programs. test/house runs the
// other half.
func TestExample(t *testing.T) {
	folder := assets(t)
	command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-v", "-run=TestWithEnvtest", ".")
	command.Dir = "../../examples/operator-tests"
	command.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+folder)
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWithEnvtest") {
		t.Errorf("%v\n%s", err, out)
	}
}
