// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

// TestVulnerabilitiesUnreachable checks that a database that can't be reached is never taken for one without
// findings.
func TestVulnerabilitiesUnreachable(t *testing.T) {
	needs.Programs(t, "bash")
	for _, c := range []struct {
		args []string
		code int
	}{{nil, 1}, {[]string{"-if-reachable"}, 0}, {[]string{"-if-reached"}, 2}} {
		cmd := exec.CommandContext(t.Context(), "../../hack/vulnerabilities", c.args...)
		// Nobody listens on port 1.
		cmd.Env = append(os.Environ(), "GOVULNDB=http://127.0.0.1:1")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || c.code != 2 && !strings.Contains(string(out), "NOT CHECKED") {
			t.Errorf("hack/vulnerabilities %v: exit code %d, want %d (%v)\n%s", c.args, code, c.code, err, out)
		}
	}
}
