// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/suite"
)

const head = "apiVersion: gatehouse.dev/v1alpha1\nkind: AdmissionTest\nspec:\n"

// The cases of a suite, each as its line, name, object and what is expected.
func TestCases(t *testing.T) {
	const base = head + `  cases:
  - name: base
    object: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{image: a}]}}
    expect: {verdict: Refused, by: P, message: no}
    table:
    - name: row
`
	for name, test := range map[string]struct{ text, want string }{
		"a case": {head + "  cases:\n  - {name: a, object: {apiVersion: v1, kind: A}, expect: {verdict: Admitted}}\n",
			`5 a {"apiVersion":"v1","kind":"A"} Admitted`},
		"a row has what the case has": {base, `9 base/row {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},` +
			`"spec":{"containers":[{"image":"a"}]}} Refused by P: no`},
		"a row says more of what is expected": {base + "      expect: {message: never}\n",
			`9 base/row {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},` +
				`"spec":{"containers":[{"image":"a"}]}} ` +
				`Refused by P: never`},
		"a verdict begins anew": {base + "      expect: {verdict: Admitted}\n",
			`9 base/row {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},` +
				`"spec":{"containers":[{"image":"a"}]}} ` +
				`Admitted`},
		"fields are set, and taken away": {base + `      set:
        spec.containers[0].image: b
        spec.containers[1]: {image: c}
        spec.hostNetwork: yes
        metadata.labels[example.com/team]: "yes"
        metadata.name: null
`, `9 base/row {"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"example.com/team":"yes"}},"spec":` +
			`{"containers":[{"image":"b"},{"image":"c"}],"hostNetwork":true}} Refused by P: no`},
		"items by a dot, where a row is one line": {base + "      set: {spec.containers.0.image: b}\n",
			`9 base/row {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},` +
				`"spec":{"containers":[{"image":"b"}]}} ` +
				`Refused by P: no`},
		"tables within tables": {base + "      set: {metadata.name: x}\n      table:\n" +
			"      - {name: one, set: {metadata.namespace: z, spec: null}}\n",
			`12 base/row/one {"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"z"}} ` +
				`Refused by P: no`},
		"anchors and what they merge": {head + `  cases:
  - &a {name: a, object: &o {apiVersion: v1, kind: A}, expect: {verdict: Admitted}}
  - {<<: *a, name: b, object: {<<: *o, kind: B}}
`, `5 a {"apiVersion":"v1","kind":"A"} Admitted
6 b {"apiVersion":"v1","kind":"B"} Admitted`},
		"not a suite": {"apiVersion: v1\nkind: Pod\n---\n# AdmissionTest\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			suites, errs := suite.Parse("s.yaml", []byte(test.text))
			if errs != nil {
				t.Fatal(errs)
			}
			var lines []string
			for _, s := range suites {
				for _, c := range s.Cases {
					object, err := json.Marshal(c.Object.Object)
					if err != nil {
						t.Fatal(err)
					}
					line := fmt.Sprintf("%d %s %s %s", c.Source.Line, c.Name, object, c.Expect.Verdict)
					if c.Expect.By != "" {
						line += " by " + c.Expect.By + ": " + c.Expect.Text
					}
					lines = append(lines, line)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A row that says what another message or other pods are expected doesn't change its neighbours.
func TestRowsKeepTheirs(t *testing.T) {
	suites, errs := suite.Parse("s.yaml", []byte(head+`  cases:
  - name: a
    object: {apiVersion: v1, kind: Pod}
    expect: {verdict: Refused, matches: "^a", by: P}
    table:
    - {name: one, expect: {matches: "^b"}}
    - {name: two}
    - {name: three, expect: {verdict: Admitted, pods: {wanted: 1, by: Q}}}
`))
	if errs != nil {
		t.Fatal(errs)
	}
	var got []string
	for _, c := range suites[0].Cases {
		line := fmt.Sprint(c.Name, " ", c.Expect.Matches, " ", c.Expect.By)
		if c.Expect.Pods != nil {
			line += fmt.Sprint(" ", *c.Expect.Pods.Wanted, c.Expect.Pods.Admitted, c.Expect.Pods.By)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"a/one ^b P", "a/two ^a P", "a/three <nil>  1 <nil>Q"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is wrong is said with its line, all of it at once.
func TestBadSuites(t *testing.T) {
	const pod = "object: {apiVersion: v1, kind: Pod}"
	one := func(fields string) string { return head + "  cases:\n  - {name: a, " + fields + "}\n" }
	for name, test := range map[string]struct{ text, want string }{
		"fields that aren't there": {head + "  stat: []\n  cases:\n  - {nam: a}\nmeta: {}\n", `
s.yaml:4: unknown field "spec.stat", did you mean "state"?
s.yaml:6: unknown field "spec.cases[0].nam", did you mean "name"?
s.yaml:7: unknown field "meta": it is one of apiVersion, kind, metadata, spec`},
		"another version": {"apiVersion: gatehouse.dev/v1\nkind: AdmissionTest\n",
			`s.yaml:1: apiVersion: it is "gatehouse.dev/v1", and must be "gatehouse.dev/v1alpha1"`},
		"a suite's name": {"metadata: {name: a/b}\n" + one(pod+", expect: {verdict: Admitted}"),
			`s.yaml:1: metadata.name: Invalid value: "a/b": it may not have a slash`},
		"no cases":    {head + "  flags: []\n", `s.yaml:1: spec.cases: Required value: a suite needs a case`},
		"a key twice": {head + "  flags: []\n  flags: []\n  cases: []\n", `s.yaml:5: key "flags" is already there`},
		"other kinds of values": {one("as: eve, state: {}, expect: [], set: a, before: [~, {kind: A}]"), `
s.yaml:5: spec.cases[0].as: it is "eve", and must be a mapping
s.yaml:5: spec.cases[0].state: it is a mapping, and must be a list
s.yaml:5: spec.cases[0].before[0]: it is empty, and must be a text
s.yaml:5: spec.cases[0].before[1]: apiVersion and kind must be set
s.yaml:5: spec.cases[0].set: it is "a", and must be a mapping of fields' paths to their values
s.yaml:5: spec.cases[0].as: user or serviceAccount: Required value
s.yaml:5: spec.cases[0].expect: it is a list, and must be a mapping`},
		"a key of a case twice": {one(pod + ", expect: {verdict: Refused, verdict: Refused}"),
			`s.yaml:5: key "verdict" is already there`},
		"nothing to judge, nothing expected": {head + "  cases:\n  - {name: a}\n  - {name: b, " + pod + "}\n", `
s.yaml:5: spec.cases[0]: object, file or input: Required value
s.yaml:6: spec.cases[1].expect.verdict: Required value: Admitted or Refused`},
		"a verdict that there isn't": {one(pod + ", expect: {verdict: Denied}"),
			`s.yaml:5: spec.cases[0].expect.verdict: unknown value "Denied": it is one of Admitted, Refused`},
		"what doesn't go together": {head + `  cases:
  - {name: a, ` + pod + `, expect: {verdict: Admitted, message: no}}
  - {name: b, ` + pod + `, expect: {verdict: Refused, object: {}}}
  - {name: c, ` + pod + `, file: x, expect: {verdict: Refused}}
  - {name: d, ` + pod + `, as: {user: a, serviceAccount: b/c}, expect: {verdict: Refused}}
`, `
s.yaml:5: spec.cases[0].expect: by, message and matches are for verdict Refused, and it is Admitted: remove them
s.yaml:6: spec.cases[1].expect: object and pods are for verdict Admitted, and it is Refused: remove them
s.yaml:7: spec.cases[2].file: x: no such file or directory
s.yaml:7: spec.cases[2]: file and object: only one can be given
s.yaml:8: spec.cases[3].as: a serviceAccount has its own name and groups: user and groups can't be given`},
		"names": {head + "  cases:\n" + strings.Repeat("  - {name: a, "+pod+", expect: {verdict: Admitted}}\n", 2) +
			"  - {name: a/b, " + pod + "}\n  - {" + pod + "}\n", `
s.yaml:6: spec.cases[1].name: Duplicate value: "a": the case at line 5 has this name
s.yaml:7: spec.cases[2].name: Invalid value: "a/b": it may have neither a slash nor a line break
s.yaml:8: spec.cases[3].name: Required value`},
		"a pattern that isn't one": {one(pod + ", expect: {verdict: Refused, matches: '('}"), "s.yaml:5: " +
			"spec.cases[0].expect.matches: error parsing regexp: missing closing ): `(`"},
		"fields that can't be set": {head + "  cases:\n  - name: a\n    " + pod +
			"\n    expect: {verdict: Admitted}\n" +
			"    table:\n" + `    - {name: a, set: {kind.x: 1}}
    - {name: b, set: {"spec.containers[0].image": 1, "spec.containers[3].image": 1}}
    - {name: c, set: {"spec.x[": 1}}
    - {name: d, set: {"spec..x": 1}}
`, `
s.yaml:9: spec.cases[0].table[0].set: kind.x: "x" can't be in Pod, which is neither a mapping nor a list
s.yaml:10: spec.cases[0].table[1].set: spec.containers[3].image: "3" is none of its items: it has 1, counted from 0
s.yaml:11: spec.cases[0].table[2].set: spec.x[: missing ] after [, or nothing between them
s.yaml:12: spec.cases[0].table[3].set: spec..x: a name in the path is empty`},
		"an alias of itself": {head + "  cases: &a [*a]\n",
			"s.yaml:4: spec.cases[0]: it is a list, and must be a mapping"},
		"aliases that blow up": {head + "  cases:\n  - object:\n      a: &a [x,x,x,x,x,x,x,x,x,x]\n" +
			"      b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n      c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"      d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n      e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n" +
			"      f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
			"s.yaml:1: aliases make more than 100000 nodes of it"},
		"no YAML": {head + "\tx", "s.yaml:4: found character that cannot start any token"},
	} {
		t.Run(name, func(t *testing.T) {
			suites, errs := suite.Parse("s.yaml", []byte(test.text))
			if len(suites) > 0 {
				t.Errorf("it has %d suites", len(suites))
			}
			got := errors.Join(errs...)
			if got == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A directory's suites are found wherever they are below it; paths are from where the suite is.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"pod.yaml": "apiVersion: v1\nkind: Pod\n", "broken.yaml": "{{ x }}",
		"tests/a.yaml": head + `  state: [.., {apiVersion: v1, kind: A}]
  flags: [--like=x.yaml, --admission_control_config_file=/etc/y.yaml, --feature-gates=A=b]
  cases:
  - {name: a, file: ../pod.yaml, expect: {verdict: Admitted}}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs := suite.Read(t.Context(), []string{dir}); len(errs) != 1 || !strings.Contains(errs[0].Error(),
		"a template that") {
		t.Errorf("the errors are %v", errs)
	}
	if err := os.Remove(filepath.Join(dir, "broken.yaml")); err != nil {
		t.Fatal(err)
	}
	suites, errs := suite.Read(t.Context(), []string{dir})
	if errs != nil || len(suites) != 1 {
		t.Fatal(suites, errs)
	}
	s := suites[0]
	var state []string
	for _, d := range s.State {
		state = append(state, d.Source.String()+" "+d.Object.GetKind())
	}
	var flags []string
	for _, flag := range s.Flags {
		flags = append(flags, flag.Text)
	}
	got := strings.ReplaceAll(fmt.Sprint(s.Name, state, flags, s.Cases[0].Object.GetKind()), dir, "DIR")
	const want = "a[DIR/pod.yaml:1 Pod DIR/tests/a.yaml:4 A] [--like=DIR/tests/x.yaml " +
		"--admission_control_config_file=/etc/y.yaml --feature-gates=A=b]Pod"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, path := range []string{filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "none")} {
		if suites, errs := suite.Read(t.Context(), []string{path}); suites != nil || len(errs) != 1 {
			t.Errorf("%s: %v, %v", path, suites, errs)
		}
	}
}

// Whatever is read, nothing panics, and every case has what it takes to judge it.
func FuzzParse(f *testing.F) {
	f.Add(head +
		"  cases:\n  - {name: a, object: {apiVersion: v1, kind: A}, set: {a.b.0: 1}, expect: {verdict: Admitted}}")
	f.Add(head + "  state: [{}]\n  cases: &a [{<<: *a, table: [{name: a}]}]\n")
	f.Add(head + "  cases:\n  - {name: a, as: {user: b, groups: []}, before: [], expect: {pods: {admitted: 1}}}")
	f.Fuzz(func(t *testing.T, text string) {
		suites, _ := suite.Parse(filepath.Join(t.TempDir(), "s.yaml"), []byte(text))
		for _, s := range suites {
			for _, c := range s.Cases {
				if c.Object == nil || c.Name == "" || c.Expect.Verdict == "" || c.Source.Line < 1 {
					t.Errorf("%q: %v", text, c)
				}
			}
		}
	})
}
