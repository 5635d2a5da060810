// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/lint.md")

// ruleRow matches a row of a rule in the tables of docs/lint.md.
var ruleRow = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (?:error|warning) \\| .*$")

// docs/lint.md has a row for each rule, in the order of the table. What it says is made from the explanations.
func TestDocumented(t *testing.T) {
	const page = "../../docs/lint.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	want := ruleRow.ReplaceAllFunc(text, func(row []byte) []byte {
		if n++; n > len(Rules) {
			return row
		}
		r := Rules[n-1]
		if id := string(ruleRow.FindSubmatch(row)[1]); id != r.ID {
			t.Errorf("docs/lint.md has %s where %s follows", id, r.ID)
		}
		e := explanations[r.ID]
		return fmt.Appendf(nil, "| `%s` | %s | %s | %s |", r.ID, r.Severity, e.effect, e.remedy)
	})
	if n != len(Rules) || len(explanations) != len(Rules) {
		t.Fatalf("docs/lint.md has %d rules, %d are explained, and there are %d", n, len(explanations), len(Rules))
	}
	if string(want) == string(text) {
		return
	}
	if !*update {
		t.Fatal("docs/lint.md isn't as the explanations say: go test ./internal/lint -run=TestDocumented -update")
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Fatal(err)
	}
}
