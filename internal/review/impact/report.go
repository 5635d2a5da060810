// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"

	"gatehouse.dev/internal/review/policyreport"
)

// A Report says what a candidate would change. It must be closed.
type Report struct {
	kind    string
	options Options
	summary Summary
	// problems are why the report is no all-clear.
	problems []Problem
	notes    []string
	groups   *groups
	results  *spill
}

// Summary returns the counts of the report.
func (r *Report) Summary() Summary { return r.summary }

// Kind returns the kind of the report: Audit or Replay.
func (r *Report) Kind() string { return r.kind }

// Notes returns what else there is to know, first the problems and then what was not judged.
func (r *Report) Notes() []string {
	notes := []string{}
	for _, p := range r.problems {
		notes = append(notes, "error: "+p.String())
	}
	return append(notes, r.notesBesideProblems()...)
}

func (r *Report) notesBesideProblems() []string {
	notes := []string{}
	if r.summary.Interrupted {
		notes = append(notes, "interrupted: not everything was judged")
	}
	for _, n := range r.summary.NotJudged {
		notes = append(notes, fmt.Sprintf("not judged: %s (%s): %s", number(n.Count), n.Reason, n.Description))
	}
	return append(notes, r.notes...)
}

// Results returns the results, in the order in which they were judged.
func (r *Report) Results() iter.Seq2[*Result, error] { return r.results.results() }

// Groups returns the differences by effect and policy, those with the most first.
func (r *Report) Groups() []Group {
	all := []Group{}
	for _, g := range r.groups.sorted() {
		all = append(all, Group{Effect: words[g.effect], Policy: g.policy.describe(), Count: g.count,
			Expression: g.policy.Expression, Message: g.message, Changes: g.changes, Remedies: g.remedies})
	}
	return all
}

// A Group counts the differences that a policy makes with an effect.
type Group struct {
	// Effect is refused, admitted, changed or warned.
	Effect string `json:"effect"`
	// Policy names the policy with its plugin and binding.
	Policy string `json:"policy"`
	Count  int    `json:"count"`
	// Expression is what is violated, Message the reason of the first difference, Changes the fields that are
	// changed in it, and Remedies what would have to change for it to pass.
	Expression string   `json:"expression,omitempty"`
	Message    string   `json:"message,omitempty"`
	Changes    []string `json:"changes,omitempty"`
	Remedies   []string `json:"remedies,omitempty"`
}

// Close drops the results.
func (r *Report) Close() error { return r.results.close() }

// Write writes the report in a format, one of Formats or empty for text.
func (r *Report) Write(w io.Writer, format string) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var err error
	switch format {
	case "":
		return r.text(w) // which asks w whether it is a terminal
	case "json":
		err = r.json(out)
	case "yaml":
		err = r.yaml(out)
	case "junit":
		err = r.junit(out)
	case "sarif", "github":
		err = r.annotate(out, format)
	case "markdown":
		err = r.markdown(out)
	case string(policyreport.OpenReports), string(policyreport.PolicyReports):
		var reports []policyreport.Report
		if reports, err = r.policyReports(format); err == nil {
			err = policyreport.Write(out, reports)
		}
	default:
		return fmt.Errorf("output format %q: it is one of %s", format, strings.Join(Formats, ", "))
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// WriteFiles writes the report to files in a directory, one for each namespace. format is openreports or
// policyreports. The notes say which files could not be replaced as a whole.
func (r *Report) WriteFiles(dir, format string) (notes []string, err error) {
	reports, err := r.policyReports(format)
	if err != nil {
		return nil, err
	}
	return policyreport.WriteFiles(dir, reports)
}

// The exit codes.
const (
	exitSame       = 0
	exitDiffers    = 1
	exitIncomplete = 2
)

// ExitCode returns 0 if nothing differs and 1 if something does. It returns 2 if the report is partial, or if it has
// Problems.
func (r *Report) ExitCode() int {
	s := &r.summary
	switch {
	case s.Interrupted, len(r.problems) > 0:
		return exitIncomplete
	case s.Refused+s.Admitted+s.Changed+s.Warned > 0:
		return exitDiffers
	}
	return exitSame
}

// share returns how many percent were judged of what there is.
func (s *Summary) share() float64 {
	return 100 * float64(s.Judged) / float64(s.Writes)
}
