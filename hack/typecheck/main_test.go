// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckPackage(t *testing.T) {
	for name, test := range map[string]struct {
		own           bool
		content, want string
	}{
		"no error":                       {true, "package p\nfunc f() int { return 1 }", ""},
		"an undefined name of ours":      {true, "package p\nfunc f() { missing() }", "undefined: missing"},
		"an unused import of ours":       {true, "package p\nimport \"unsafe\"", "imported and not used"},
		"a wrong declaration of others":  {false, "package p\nvar x missing", "undefined: missing"},
		"a body of others":               {false, "package p\nfunc f() { missing() }", ""},
		"a file that can't be parsed":    {true, "package p\nfunc {", "expected"},
		"an import that go list omitted": {true, "package p\nimport _ \"other\"", "not a dependency"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := checkPackage(listed{ImportPath: "p", Dir: dir, GoFiles: []string{"p.go"}}, "amd64", test.own,
				map[string]*types.Package{"unsafe": types.Unsafe})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestRunRefusesWhatIsNoPlatform(t *testing.T) {
	for _, platforms := range [][]string{nil, {"windows"}, {"no/such"}} {
		if err := run(platforms); err == nil {
			t.Errorf("%q: no error", platforms)
		}
	}
}
