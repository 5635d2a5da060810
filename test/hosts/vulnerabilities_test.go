// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"gatehouse.dev/test/needs"
)

// TestVulnerabilitiesUnreachable checks that a database that can't be reached is never taken for one without
// findings: either hack/vulnerabilities fails, or it says with which list it compared the programs.
func TestVulnerabilitiesUnreachable(t *testing.T) {
	needs.Programs(t, "bash")
	for _, c := range []struct {
		args []string
		want string // the exit code, and what is printed
	}{
		{nil, `(?s)^1 .*NOT CHECKED`},
		// Once the list is too old, CI is to fail, and not this test.
		{[]string{"-if-reachable"}, `(?s)^(0 .*checked against the list of 20|1 .*more than 60 days old)`},
		{[]string{"-if-reached"}, `(?s)^2 .*hack/vulnerabilities -if-reachable`},
	} {
		cmd := exec.CommandContext(t.Context(), "../../hack/vulnerabilities", c.args...)
		// Nobody listens on port 1.
		cmd.Env = append(os.Environ(), "GOVULNDB=http://127.0.0.1:1")
		out, err := cmd.CombinedOutput()
		if got := fmt.Sprintf("%d %s", cmd.ProcessState.ExitCode(), out); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("hack/vulnerabilities %v (%v): %s\nwant %s", c.args, err, got, c.want)
		}
	}
}
