// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const testList = `# a comment
date 2026-11-29
until 2026-11-20

example.com/old - 1.2.0 GO-2026-6348 memory by requests
example.com/ranges - 3.6.14 GO-2026-6107,CVE-2026-73500 many connections
example.com/ranges 3.7.0-alpha.0 3.7.1 GO-2026-6107 many connections
`

func parseTestList(t *testing.T) advisories {
	t.Helper()
	l, err := parseList(testList)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// program returns the modules of one program: a version, and as many modules that the list doesn't name as it takes.
func program(name, version string) map[string]map[string][]string {
	modules := map[string][]string{name: {version}}
	for i := range 10 {
		modules[fmt.Sprintf("example.com/other%d", i)] = []string{"v0.1.0"}
	}
	return map[string]map[string][]string{"gatehouse": modules}
}

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// TestCheckVersions checks that a version below the fixed one fails, and that others pass and say against what they
// were checked.
func TestCheckVersions(t *testing.T) {
	for _, c := range []struct {
		module, version string
		fails           bool
	}{
		{"example.com/old", "v1.1.9", true},
		{"example.com/old", "v1.2.0-rc.1", true},
		{"example.com/old", "v1.1.10-0.20260101000000-0123456789ab", true},
		{"example.com/old", "v1.2.0", false},
		{"example.com/old", "v2.0.0+incompatible", false},
		{"example.com/old/v2", "v2.0.0", false},
		{"example.com/ranges", "v3.6.13", true},
		{"example.com/ranges", "v3.6.14", false},
		{"example.com/ranges", "v3.7.0", true},
		{"example.com/ranges", "v3.7.1", false},
	} {
		var out strings.Builder
		err := check(&out, parseTestList(t), program(c.module, c.version), noon)
		if (err != nil) != c.fails {
			t.Errorf("%s %s: error %v, want one: %t", c.module, c.version, err, c.fails)
		}
		for _, want := range []string{"gatehouse has " + c.module + " " + c.version, "GO-2026-"} {
			if c.fails && !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("the error doesn't say %q: %v", want, err)
			}
		}
		if passed := strings.HasPrefix(out.String(), "checked against the list of 2026-11-29: 11 modules of gatehouse, "+
			"3 advisories published until 2026-11-20"); passed == c.fails {
			t.Errorf("%s %s: printed %q", c.module, c.version, out.String())
		}
	}
}

// TestCheckAge checks that an old list fails, whatever it names.
func TestCheckAge(t *testing.T) {
	for _, c := range []struct {
		now  string
		want string
	}{
		{"2026-11-29T00:00:00Z", ""},
		{"2026-11-28T10:00:00Z", ""},
		{"2027-01-28T00:00:00Z", ""},
		{"2027-01-28T00:00:01Z", "more than 60 days old"},
		{"2026-11-27T00:00:00Z", "yet to come"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = check(&out, parseTestList(t), program("example.com/old", "v1.2.0"), now)
		if (err != nil) != (c.want != "") || !strings.Contains(fmt.Sprint(err), c.want) || (err != nil && out.Len() > 0) {
			t.Errorf("%s: error %v, want %q; printed %q", c.now, err, c.want, &out)
		}
	}
}

// TestCheckNothing checks that no modules are never taken for good ones.
func TestCheckNothing(t *testing.T) {
	for _, programs := range []map[string]map[string][]string{nil, {"gatehouse": {"example.com/old": {"v1.2.0"}}}} {
		if err := check(&strings.Builder{}, parseTestList(t), programs, noon); err == nil {
			t.Errorf("%v passed", programs)
		}
	}
}

// TestParseListErrors checks that a list with a mistake is refused.
func TestParseListErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"date 2026-11-29\n", "", "no lines with date and until"},
		{"until 2026-11-20\n", "", "no lines with date and until"},
		{"date 2026-11-29", "date 29 November", "line 2: it isn't MODULE"},
		{"date 2026-11-29", "date 2026-11-31", "line 2:"},
		{"until 2026-11-20", "until 2026-12-20", "until is after date"},
		{" memory by requests", "", "line 5: it isn't MODULE"},
		{"- 1.2.0", "- v1.2.0", "must be versions without a v"},
		{"- 1.2.0", "1 1.2.0-", "must be versions without a v"},
		{"3.7.0-alpha.0", "3.7.1", "v3.7.1 isn't before v3.7.1"},
		{"GO-2026-6348", "GO-2026-6348,", "is no ID"},
		{"GO-2026-6348", "6348", `"6348" is no ID`},
		{"GO-2026-6107,CVE", "GO-2026-6107/CVE", "is no ID"},
	} {
		text := strings.Replace(testList, c.old, c.new, 1)
		if _, err := parseList(text); text == testList || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("with %q for %q: error %v, want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := parseList("date 2026-11-29\nuntil 2026-11-20\n"); err == nil {
		t.Error("a list without advisories was accepted")
	}
}

// TestList checks that the list can be read, and that each of its modules is named as go.mod names modules.
func TestList(t *testing.T) {
	l, err := parseList(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range l.entries {
		if !strings.Contains(strings.SplitN(a.module, "/", 2)[0], ".") {
			t.Errorf("%s is no module", a.module)
		}
	}
	if len(l.entries) < 40 {
		t.Errorf("%d advisories", len(l.entries))
	}
}

// TestParseModules checks that each program has the modules that it imports, and no others.
func TestParseModules(t *testing.T) {
	const listed = `{"ImportPath": "fmt"}
{"ImportPath": "a.example/one/p", "Module": {"Path": "a.example/one", "Version": "v1.0.0"}}
{"ImportPath": "a.example/two", "Module": {"Path": "a.example/two", "Version": "v1.0.0", "Replace": {"Path": "b.example/two", "Version": "v1.1.0"}}}
{"ImportPath": "gatehouse.dev/cli", "Module": {"Path": "gatehouse.dev", "Main": true}}
{"ImportPath": "gatehouse.dev/cmd/x", "Name": "main", "Deps": ["fmt", "a.example/one/p", "gatehouse.dev/cli"], "Module": {"Path": "gatehouse.dev", "Main": true}}
{"ImportPath": "gatehouse.dev/cmd/y", "Name": "main", "Deps": ["fmt", "a.example/two"], "Module": {"Path": "gatehouse.dev", "Main": true}}
`
	programs := map[string]map[string][]string{}
	for _, text := range []string{listed, listed, strings.Replace(listed, "v1.0.0", "v1.0.1", 1)} {
		if err := parseModules(programs, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]map[string][]string{
		"x": {"a.example/one": {"v1.0.0", "v1.0.1"}},
		"y": {"b.example/two": {"v1.1.0"}},
	}
	if !reflect.DeepEqual(programs, want) {
		t.Errorf("modules %v, want %v", programs, want)
	}
}
