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
// findings: either hack/vulnerabilities fails, or it says with which list it compared the programs.
func TestVulnerabilitiesUnreachable(t *testing.T) {
	needs.Programs(t, "bash")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "NOT CHECKED"},
		{[]string{"-if-reachable"}, 0, "checked against the list of 20"},
		{[]string{"-if-reached"}, 2, "hack/vulnerabilities -if-reachable"},
	} {
		cmd := exec.CommandContext(t.Context(), "../../hack/vulnerabilities", c.args...)
		// Nobody listens on port 1.
		cmd.Env = append(os.Environ(), "GOVULNDB=http://127.0.0.1:1")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("hack/vulnerabilities %v: exit code %d, want %d and %q (%v)\n%s", c.args, code, c.code, c.want, err, out)
		}
	}
}
