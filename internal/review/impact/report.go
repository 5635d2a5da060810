package impact

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"gatehouse.dev/internal/review/policyreport"
)

// A Report says what a candidate would change. It must be closed.
type Report struct {
	kind    string
	options Options
	summary Summary
	notes   []string
	groups  *groups
	results *spill
}

// Summary returns the counts of the report.
func (r *Report) Summary() Summary { return r.summary }

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
// policyreports.
func (r *Report) WriteFiles(dir, format string) error {
	reports, err := r.policyReports(format)
	if err != nil {
		return err
	}
	return policyreport.WriteFiles(dir, reports)
}

// The exit codes.
const (
	exitSame       = 0
	exitDiffers    = 1
	exitIncomplete = 2
)

// ExitCode returns 0 if nothing differs and 1 if something does. It returns 2 if the report is partial, or if less
// than minJudged percent were judged.
func (r *Report) ExitCode(minJudged float64) int {
	s := &r.summary
	switch {
	case s.Interrupted, minJudged > 0 && (s.Writes == 0 || s.share() < minJudged):
		return exitIncomplete
	case s.Refused+s.Admitted+s.Changed+s.Warned > 0:
		return exitDiffers
	}
	return exitSame
}

// share returns how many percent were judged; 100 if there is nothing to judge.
func (s *Summary) share() float64 {
	if s.Writes == 0 {
		return 100
	}
	return 100 * float64(s.Judged) / float64(s.Writes)
}
