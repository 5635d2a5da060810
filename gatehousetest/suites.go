// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest

import (
	"testing"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/internal/review/verify"
	"gatehouse.dev/internal/testlog"
)

// RunSuites runs the suites of admission tests (kind AdmissionTest, docs/test.md) in files, and in
// directories with everything below them. Each suite and each case is a subtest. Paths are relative
// to the test's directory. The flags of a suite may call backends and run programs, as the test itself
// may.
func RunSuites(t *testing.T, paths ...string) {
	t.Helper()
	testlog.Show(t)
	suites, errs := suite.Read(t.Context(), paths)
	for _, err := range errs {
		t.Error(err)
	}
	report, err := verify.Run(t.Context(), suites, verify.Options{Plugins: compiled.Plugins,
		Allowed: verify.Allowed{Calls: true, Exec: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Suites {
		t.Run(s.Name, func(t *testing.T) {
			if s.Error != "" {
				t.Fatalf("%s: %s", s.Source, s.Error)
			}
			for _, warning := range s.Warnings {
				t.Log("warning: " + warning)
			}
			for _, c := range s.Cases {
				t.Run(c.Name, func(t *testing.T) {
					if c.Outcome != verify.Passed {
						t.Errorf("%s\n%s", c.Source, c.Details())
					}
				})
			}
		})
	}
}
