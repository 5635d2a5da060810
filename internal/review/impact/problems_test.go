// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"strings"
	"testing"
)

// Every format says why a report is no all-clear.
func TestProblems(t *testing.T) {
	same := written("bob", "shop", "same", 0)
	unjudged := written("bob", "shop", "y", 0)
	unjudged.Verdict, unjudged.Unjudged = "", "unknown-base"
	for name, test := range map[string]struct {
		results []*Result
		Options
		Ending
		want []string
	}{
		"nothing": {Ending: Ending{Nothing: "there are no objects"}, want: []string{"nothing was judged: there are no objects"}},
		"a file that can't be read": {results: []*Result{same}, Ending: Ending{Problems: []Problem{
			{Source: &Source{File: "tabs.yaml", Line: 4}, Message: "found a tab"}, {Message: "pods: there is no right to list them"}}},
			want: []string{"tabs.yaml", "found a tab", "pods: there is no right to list them"}},
		"nothing but a file that can't be read": {Ending: Ending{Nothing: "there are no objects",
			Problems: []Problem{{Source: &Source{File: "a.yaml"}, Message: "permission denied"}}}, want: []string{"permission denied"}},
		"nothing that could be judged": {results: []*Result{unjudged}, want: []string{"nothing was judged of 1 write"}},
		"too little": {results: []*Result{same, same, unjudged}, Options: Options{MinJudged: 66.7},
			want: []string{"66.6 % were judged, less than the 66.7 % that --min-judged asks for"}},
	} {
		t.Run(name, func(t *testing.T) {
			report := collect(t, Replay, test.Options, test.Ending, test.results...)
			if strings.Contains(write(t, report, ""), "100.0 %") != (name == "a file that can't be read") {
				t.Errorf("the share is wrong:\n%s", write(t, report, ""))
			}
			marks := map[string]string{"": "error: ", "json": `"errors": [`, "yaml": "errors:", "junit": "<error ",
				"sarif": `"executionSuccessful": false`, "github": "::error ", "markdown": "- error: ", "openreports": "result: error",
				"policyreports": "result: error"}
			for format, mark := range marks {
				got := write(t, report, format)
				for _, want := range append(test.want, mark) {
					if format == "github" {
						want = strings.ReplaceAll(want, "%", "%25")
					}
					if !strings.Contains(got, want) {
						t.Errorf("format %q doesn't say %q:\n%s", format, want, got)
					}
				}
			}
			loaded, err := Load(strings.NewReader(write(t, report, "json")), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			if notes := loaded.Notes(); !strings.Contains(strings.Join(notes, "\n"), "error: ") {
				t.Errorf("notes: %q", notes)
			}
			if len(loaded.Problems()) != len(report.Problems()) || loaded.ExitCode() != exitIncomplete {
				t.Errorf("a report that was read has %q, and ends with %d", loaded.Problems(), loaded.ExitCode())
			}
		})
	}
	report := collect(t, Replay, Options{}, Ending{}, same)
	for _, format := range append([]string{""}, Formats...) {
		if got := write(t, report, format); len(report.Problems()) > 0 || strings.Contains(got, "error: ") ||
			strings.Contains(got, `"errors"`) || strings.Contains(got, "<error") {
			t.Errorf("format %q has a problem, and there is none:\n%s", format, got)
		}
	}
}
