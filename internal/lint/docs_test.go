// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
)

// ruleRow matches a row of a rule in the tables of docs/lint.md.
var ruleRow = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (error|warning) \\| [^|]+[.:)] \\| [^|]+\\. \\|$")

// docs/lint.md has a row for each rule, in the order of the table, with what happens and how to fix it.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, rules []string
	for _, row := range ruleRow.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1]+" "+row[2])
	}
	for _, r := range Rules {
		rules = append(rules, fmt.Sprint(r.ID, " ", r.Severity))
	}
	if !slices.Equal(documented, rules) {
		t.Errorf("docs/lint.md has\n%q\nthe table has\n%q", documented, rules)
	}
}
