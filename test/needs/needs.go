// Package needs says which programs a test needs besides Go. Where one is missing the test is
// skipped by its name, so that everybody can run all tests; where the environment has
// GATEHOUSE_TEST_ALL, as in CI, it fails instead: there nothing may go untested.
package needs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// All is the environment variable that makes a missing program a failure, whatever its value.
const All = "GATEHOUSE_TEST_ALL"

// Programs skips the test, or fails it, unless all the programs are there.
func Programs(t testing.TB, programs ...string) {
	t.Helper()
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	switch names := strings.Join(missing, ", "); {
	case names == "":
	case os.Getenv(All) != "":
		t.Fatalf("needs programs that are not installed: %s", names)
	default:
		t.Skipf("needs programs that are not installed: %s", names)
	}
}
