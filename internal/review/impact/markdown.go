// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"io"
	"slices"
	"strings"

	"gatehouse.dev/internal/review/markdown"
)

// markdown writes the differences as a table, with a row for those that are alike.
func (r *Report) markdown(w io.Writer) error {
	all := r.Notes() // which end with those that are no gaps
	report := &markdown.Report{Headline: "gatehouse " + strings.ToLower(r.kind) + ": " + r.Headline(),
		Gaps: all[:len(all)-len(r.notes)], Notes: r.notes}
	for e, n := range r.groups.others {
		if n > 0 {
			report.Rows = append(report.Rows, markdown.Row{Object: r.count(n), Verdict: words[e], By: "further policies",
				Because: "see -o json"})
		}
	}
	for _, g := range r.groups.sorted() {
		for _, like := range g.sortedRows() {
			cells := r.cells(like)
			cells[0] = r.count(like.count)
			cells = slices.DeleteFunc(cells, func(cell string) bool { return cell == "" })
			row := markdown.Row{Object: strings.Join(cells, " · "), Verdict: words[g.effect], By: g.policy.describe(),
				Because: like.message, ToPass: strings.Join(g.remedies, "\n")}
			if r.kind == Replay {
				row.Object += "\nfor example " + like.example
			}
			switch g.effect {
			case admits:
				row.Because = "refused before: " + row.Because
			case changes:
				row.Because = strings.Join(g.changes, "\n")
			}
			report.Rows = append(report.Rows, row)
		}
	}
	return report.Write(w)
}
