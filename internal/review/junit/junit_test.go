// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package junit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/junit"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := junit.Write(&b, []junit.Suite{
		{Name: "a.yaml", Cases: []junit.Case{{Name: "pod", ClassName: "a.yaml", File: "a.yaml", Line: 3},
			{Name: "other", ClassName: "a.yaml", File: "a.yaml", Line: 9, Output: "mind this",
				Failure: &junit.Problem{Message: "by Q", Type: "Q", Text: "a.yaml:9: by Q <1>"}}}},
		{Name: "b", File: "b.yaml", Seconds: 1.5, Cases: []junit.Case{{Name: "x", Line: 1, Seconds: 0.25,
			Error: &junit.Problem{Message: "broken", Text: "broken"}}}},
	}); err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" errors="1">
  <testsuite name="a.yaml" tests="2" failures="1" errors="0">
    <testcase name="pod" classname="a.yaml" file="a.yaml" line="3"></testcase>
    <testcase name="other" classname="a.yaml" file="a.yaml" line="9">
      <failure message="by Q" type="Q">a.yaml:9: by Q &lt;1&gt;</failure>
      <system-out>mind this</system-out>
    </testcase>
  </testsuite>
  <testsuite name="b" tests="1" failures="0" errors="1" time="1.500" file="b.yaml">
    <testcase name="x" classname="" line="1" time="0.250">
      <error message="broken">broken</error>
    </testcase>
  </testsuite>
</testsuites>
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
