// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/review"
)

// Parts of a pattern are for the suite, the case and the row, and slashes in brackets are no ends
// of parts, as with go test.
func TestPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"":             "a/one a/one/x b/two c/one/y",
		"a":            "a/one a/one/x",
		"^a$/one":      "a/one a/one/x",
		"/one":         "a/one a/one/x c/one/y",
		"//y":          "c/one/y",
		"[a/b]/t|w":    "b/two",
		`a\/`:          "",
		"(a|b/)/o/x|y": "a/one/x",
		"a/one/x/more": "",
	} {
		p, err := NewPattern(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		var matched []string
		for _, name := range []string{"a/one", "a/one/x", "b/two", "c/one/y"} {
			if p.matches(name) {
				matched = append(matched, name)
			}
		}
		if got := strings.Join(matched, " "); got != want {
			t.Errorf("%q matches %q, want %q", pattern, got, want)
		}
	}
	if _, err := NewPattern("a/(b"); err == nil || !strings.HasPrefix(err.Error(), `"(b": `) {
		t.Errorf("the error is %v", err)
	}
}

// reported is what became of two suites.
func reported() *Report {
	at := func(line int) input.Source { return input.Source{File: "a.yaml", Line: line} }
	r := &Report{APIVersion: APIVersion, Kind: Kind, Suites: []Suite{
		{Source: at(1), Name: "a", Seconds: 0.25, Cases: []*Case{
			{Source: at(2), Name: "good", Outcome: Passed},
			{Source: at(3), Name: "bad", Outcome: Failed, Differences: []suite.Difference{
				{Field: "verdict", Expected: "Admitted", Got: "Refused by P: a\nb"},
				{Field: "warnings", Expected: []string{"old"}, Got: []string{}}},
				Because: []string{"V v: its rules are for pods"}},
			{Source: at(4), Name: "none", Outcome: Error, Error: "no matches\nfor it"},
		}},
		{Source: input.Source{File: "longer.yaml", Line: 1}, Name: "second", Error: "spec.state: wrong",
			Cases: []*Case{{Source: at(9), Name: "only", Outcome: Error}}},
	}, Coverage: []Coverage{
		{Source: at(5), Kind: "ValidatingAdmissionPolicy", Name: "p", Cases: 2, Hits: 2},
		{Source: at(5), Kind: "ValidatingAdmissionPolicy", Name: "p", Part: "validations[0]", Text: "a == 1", Cases: 2},
		{Source: at(5), Kind: "ValidatingAdmissionPolicy", Name: "q", Part: "validations[0]", Text: "b == 1"},
		{Source: at(7), Kind: "LimitRange", Namespace: "shop", Name: "l"},
		{Source: at(8), Kind: "MutatingWebhookConfiguration", Name: "c", Part: "w rules[0]", Text: "[CREATE] pods"},
	}}
	r.summarize()
	return r
}

// What people read.
func TestText(t *testing.T) {
	var out strings.Builder
	if err := reported().Write(&out, "", ""); err != nil {
		t.Fatal(err)
	}
	const want = `--- FAIL: a/bad  a.yaml:3
    verdict
      expected  Admitted
      got       Refused by P: a
                b
    warnings
      expected  ["old"]
      got       []
    because   V v: its rules are for pods
--- ERROR: a/none  a.yaml:4
    no matches
    for it
FAIL  a       a.yaml         3 cases  0.25s
--- ERROR: second  longer.yaml:1
    spec.state: wrong
FAIL  second  longer.yaml    1 case   0.00s
coverage: policies 1 of 1, validations 0 of 2, webhook rules 0 of 1, LimitRanges 0 of 1
    a.yaml:5  ValidatingAdmissionPolicy p validations[0] a == 1: never violated, in 2 cases
    a.yaml:5  ValidatingAdmissionPolicy q validations[0] b == 1: never evaluated
    a.yaml:7  LimitRange shop/l: no case
    a.yaml:8  MutatingWebhookConfiguration c w rules[0] [CREATE] pods: no case
1 passed, 1 failed, 2 errors
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	out.Reset()
	if err := (&Report{Coverage: []Coverage{}}).Write(&out, "", ""); err != nil || out.String() !=
		"coverage: there is nothing in the state to cover\n0 passed, 0 failed, 0 errors\n" {
		t.Errorf("of nothing it says %v, %q", err, &out)
	}
}

// Programs read what people do.
func TestFormats(t *testing.T) {
	for format, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, into any) error { return yaml.Unmarshal(data, into) },
	} {
		var out strings.Builder
		if err := reported().Write(&out, format, ""); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := decode([]byte(out.String()), &got); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		want := map[string]any{"passed": 1.0, "failed": 1.0, "errors": 2.0}
		if !reflect.DeepEqual(got["summary"], want) || len(got["suites"].([]any)) != 2 ||
			len(got["coverage"].([]any)) != 5 || got["kind"] != "AdmissionTestReport" {
			t.Errorf("%s: got %v", format, got)
		}
	}
	if err := reported().Write(&strings.Builder{}, "xml", ""); err == nil {
		t.Error("it writes xml")
	}
	var out strings.Builder
	if err := reported().JUnit(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<testsuites tests="4" failures="1" errors="2">`,
		`<testsuite name="a" tests="3" failures="1" errors="1" time="0.250" file="a.yaml">`,
		`<failure message="differs in verdict, warnings">`,
		`<error message="spec.state: wrong">spec.state: wrong</error>`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s isn't in %s", want, &out)
		}
	}
	out.Reset()
	if err := reported().Write(&out, "github", ""); err != nil {
		t.Fatal(err)
	}
	const want = `::error file=a.yaml,line=3,title=a/bad fails::verdict%0A      expected  Admitted%0A      got       Refused by P: a%0A                b%0A    warnings%0A      expected  ["old"]%0A      got       []%0A    because   V v: its rules are for pods
::error file=a.yaml,line=4,title=a/none can't be judged::no matches%0A    for it
::error file=longer.yaml,line=1,title=second can't be judged::spec.state: wrong
::notice file=a.yaml,line=5,title=ValidatingAdmissionPolicy p isn't covered::a.yaml:5  ValidatingAdmissionPolicy p validations[0] a == 1: never violated, in 2 cases
::notice file=a.yaml,line=5,title=ValidatingAdmissionPolicy q isn't covered::a.yaml:5  ValidatingAdmissionPolicy q validations[0] b == 1: never evaluated
::notice file=a.yaml,line=7,title=LimitRange l isn't covered::a.yaml:7  LimitRange shop/l: no case
::notice file=a.yaml,line=8,title=MutatingWebhookConfiguration c isn't covered::a.yaml:8  MutatingWebhookConfiguration c w rules[0] [CREATE] pods: no case
1 passed, 1 failed, 2 errors
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// It ends with what is worst.
func TestExitCode(t *testing.T) {
	for want, s := range map[int]Summary{
		review.ExitAdmitted: {Passed: 1},
		review.ExitRefused:  {Passed: 1, Failed: 1},
		review.ExitFailed:   {Passed: 1, Failed: 1, Errors: 1},
	} {
		if got := (&Report{Summary: s}).ExitCode(); got != want {
			t.Errorf("%+v ends with %d, want %d", s, got, want)
		}
	}
}

// A file that can't be read is an error in every format, also if nothing else was judged.
func TestFail(t *testing.T) {
	r := &Report{APIVersion: APIVersion, Kind: Kind}
	r.Fail(&input.Error{Source: input.Source{File: "b.yaml", Line: 6}, Err: errors.New("found a tab")}, errors.New("--update: no space"))
	if r.ExitCode() != review.ExitFailed || r.Summary.Errors != 2 {
		t.Errorf("it ends with %d: %+v", r.ExitCode(), r.Summary)
	}
	print := map[string]func(*strings.Builder) error{
		"text": func(b *strings.Builder) error { return r.Write(b, "", "") },
	}
	for _, format := range Formats {
		print[format] = func(b *strings.Builder) error { return r.Write(b, format, "1.0") }
	}
	marks := map[string]string{"text": "2 errors", "json": `"errors": 2`, "yaml": "errors: 2", "junit": `errors="2"`,
		"sarif": `"executionSuccessful": false`, "github": "::error file=b.yaml,line=6,"}
	for format, write := range print {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"b.yaml", "found a tab", "--update: no space", marks[format]} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s doesn't say %q:\n%s", format, want, &b)
			}
		}
	}
}
