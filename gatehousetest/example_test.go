package gatehousetest_test

import (
	"testing"

	"gatehouse.dev/gatehousetest"
)

// The suites of a repository, as a test of its own: go test shows each case.
func ExampleRunSuites() {
	_ = func(t *testing.T) { // func TestPolicies
		gatehousetest.RunSuites(t, "policies")
	}
}

// The policies of examples/policies do what their suites say.
func TestRunSuites(t *testing.T) {
	gatehousetest.RunSuites(t, "../examples/policies")
}
