// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/review/annotation"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/junit"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/internal/terminal"
)

// Formats are the formats of a printed report, besides text.
var Formats = []string{"json", "yaml", "junit", "sarif", "github"}

// Write prints a report in a format, one of Formats or empty for text. version is the program's.
func (r *Report) Write(w io.Writer, format, version string) error {
	switch format {
	case "":
		return terminal.Write(w, r.text(), terminal.Palette{
			Begin: map[string]terminal.Color{"ok": terminal.Green, "FAIL": terminal.Red, "---": terminal.Red,
				"warning:": terminal.Yellow},
			Indented: map[string]terminal.Color{"expected": terminal.Green, "got": terminal.Red}})
	case "json", "yaml":
		return document.Write(w, format, r)
	case "junit":
		return r.JUnit(w)
	case "sarif":
		return r.annotations(version).SARIF(w)
	case "github":
		return r.annotations(version).GitHub(w)
	}
	return fmt.Errorf("output format %q: it is one of %s", format, strings.Join(Formats, ", "))
}

// text returns a line for each suite, after the cases of the suite that didn't pass.
func (r *Report) text() string {
	var b strings.Builder
	name, file := 0, 0
	for i := range r.Suites {
		name, file = max(name, len(terminal.Line(r.Suites[i].Name))), max(file,
			len(terminal.Line(r.Suites[i].Source.File)))
	}
	warned := map[string]bool{} // several suites may have the same policy
	for i := range r.Suites {
		s := &r.Suites[i]
		for _, warning := range s.Warnings {
			if !warned[warning] {
				fmt.Fprintf(&b, "warning: %s\n", strings.ReplaceAll(warning, "\n", "\n  "))
			}
			warned[warning] = true
		}
		word := "ok   "
		for _, c := range s.Cases {
			if c.Outcome != Passed {
				word = "FAIL "
				if s.Error == "" {
					fmt.Fprintf(&b, "--- %s: %s/%s  %s\n", outcomeWord(c.Outcome), terminal.Line(s.Name),
						terminal.Line(c.Name), terminal.Line(c.Source.String()))
					b.WriteString(c.Details())
				}
			}
		}
		if s.Error != "" {
			fmt.Fprintf(&b, "--- ERROR: %s  %s\n    %s\n", terminal.Line(s.Name), terminal.Line(s.Source.String()),
				strings.ReplaceAll(s.Error, "\n", "\n    "))
		}
		fmt.Fprintf(&b, "%s %-*s  %-*s  %3d %s  %.2fs\n", word, name, terminal.Line(s.Name), file,
			terminal.Line(s.Source.File), len(s.Cases),
			plural(len(s.Cases), "case"), s.Seconds)
	}
	if r.Coverage != nil {
		r.coverage(&b)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	b.WriteString(r.headline() + "\n")
	return b.String()
}

// headline counts the cases.
func (r *Report) headline() string {
	text := fmt.Sprintf("%d passed, %d failed, %s", r.Summary.Passed, r.Summary.Failed, count.Of(r.Summary.Errors, "error"))
	if r.Summary.Updated > 0 {
		text += fmt.Sprintf(", %d updated", r.Summary.Updated)
	}
	return text
}

func plural(n int, word string) string {
	if n == 1 {
		return word + " "
	}
	return word + "s"
}

// Details returns what differs or went wrong, in lines; "" for a case that passed.
func (c *Case) Details() string {
	if c.Error != "" {
		return "    " + strings.ReplaceAll(c.Error, "\n", "\n    ") + "\n"
	}
	var b strings.Builder
	for _, d := range c.Differences {
		fmt.Fprintf(&b, "    %s\n      expected  %s\n      got       %s\n", d.Field, show(d.Expected), show(d.Got))
	}
	for _, cause := range c.Because {
		fmt.Fprintf(&b, "    because   %s\n", strings.ReplaceAll(cause, "\n", "\n              "))
	}
	return b.String()
}

// show formats a value for people.
func show(value any) string {
	if s, ok := value.(string); ok && s != "" && strings.Trim(s, " ") == s {
		s = strings.TrimRight(s, "\n")
		return strings.ReplaceAll(s, "\n", "\n                ")
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}

// coverage prints the things that no case has touched.
func (r *Report) coverage(b *strings.Builder) {
	kinds := []string{"policies", "validations", "webhook rules", "LimitRanges"}
	covered, all := make([]int, len(kinds)), make([]int, len(kinds))
	var missing []string
	for i := range r.Coverage {
		c := &r.Coverage[i]
		kind := 0
		switch {
		case c.Kind == "LimitRange":
			kind = 3
		case strings.Contains(c.Part, " rules["):
			kind = 2
		case c.Part != "":
			kind = 1
		}
		if all[kind]++; c.Covered() {
			covered[kind]++
			continue
		}
		missing = append(missing, c.String())
	}
	var counts []string
	for i, kind := range kinds {
		if all[i] > 0 {
			counts = append(counts, fmt.Sprintf("%s %d of %d", kind, covered[i], all[i]))
		}
	}
	if len(counts) == 0 {
		counts = []string{"there is nothing in the state to cover"}
	}
	fmt.Fprintf(b, "coverage: %s\n", strings.Join(counts, ", "))
	for _, line := range missing {
		fmt.Fprintf(b, "    %s\n", terminal.Line(line))
	}
}

// String returns the thing's source and name, and how it wasn't touched.
func (c *Coverage) String() string {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	text := fmt.Sprintf("%s  %s %s", c.Source, c.Kind, name)
	why := "no case"
	switch {
	case strings.HasPrefix(c.Part, "validations") && c.Cases > 0:
		why = "never violated, in " + count.Of(c.Cases, "case")
	case strings.HasPrefix(c.Part, "validations"):
		why = "never evaluated"
	}
	if c.Part != "" {
		text += " " + c.Part
		if c.Text != "" {
			text += " " + c.Text
		}
	}
	return text + ": " + why
}

// JUnit prints the report as JUnit's XML.
func (r *Report) JUnit(w io.Writer) error {
	var suites []junit.Suite
	for i := range r.Suites {
		from := &r.Suites[i]
		to := junit.Suite{Name: from.Name, File: from.Source.File, Seconds: from.Seconds}
		for _, c := range from.Cases {
			j := junit.Case{Name: c.Name, ClassName: from.Name, File: c.Source.File, Line: c.Source.Line,
				Seconds: junit.Seconds(c.Seconds)}
			switch c.Outcome {
			case Failed:
				j.Failure = &junit.Problem{Message: summary(c.Differences), Text: c.Details()}
			case Error:
				text := cmp.Or(c.Error, from.Error)
				j.Error = &junit.Problem{Message: text, Text: text}
			}
			to.Cases = append(to.Cases, j)
		}
		suites = append(suites, to)
	}
	return junit.Write(w, suites)
}

// The rules under which annotations are filed.
const (
	ruleFails    = "case-fails"
	ruleUnjudged = "unjudged"
	ruleWarning  = "suspicious-policy"
	ruleCoverage = "not-covered"
)

// annotations returns the cases that don't pass, the warnings, and what no case covers, for code hosts.
func (r *Report) annotations(version string) *annotation.Report {
	report := &annotation.Report{Command: "gatehouse test", Version: version, Notes: r.Notes, Summary: r.headline(),
		Partial: r.Summary.Errors > 0, Rules: map[string]annotation.Rule{
			ruleFails: {Title: "a case fails", Help: "The server's verdict isn't the one that the case expects. Correct the " +
				"policy, or the case."},
			ruleUnjudged: {Title: "something can't be judged", Help: "A suite, a case or a file can't be read or judged, so " +
				"nothing is known about it. Correct it."},
			ruleWarning: {Title: "a policy is likely mistaken", Help: "An expression reads a field that no object of its " +
				"kinds has. Correct the name of the field."},
			ruleCoverage: {Title: "no case covers it", Help: "No case touches this policy, validation, rule or LimitRange. " +
				"Add a case that does."},
		}}
	add := func(f annotation.Finding, at input.Source) {
		f.File, f.Line = at.File, at.Line
		report.Findings = append(report.Findings, f)
	}
	warned := map[string]bool{}
	for i := range r.Suites {
		s := &r.Suites[i]
		for _, warning := range s.Warnings {
			if !warned[warning] {
				add(annotation.Finding{Level: annotation.Warning, Rule: ruleWarning, Object: s.Name, Text: warning}, s.Source)
			}
			warned[warning] = true
		}
		if s.Error != "" {
			add(annotation.Finding{Level: annotation.Error, Rule: ruleUnjudged, Object: s.Name, Outcome: "can't be judged",
				Text: s.Error}, s.Source)
			continue
		}
		for _, c := range s.Cases {
			rule, outcome := ruleFails, "fails"
			switch c.Outcome {
			case Passed:
				continue
			case Error:
				rule, outcome = ruleUnjudged, "can't be judged"
			}
			add(annotation.Finding{Level: annotation.Error, Rule: rule, Object: s.Name + "/" + c.Name, Outcome: outcome,
				Text: strings.TrimSpace(c.Details())}, c.Source)
		}
	}
	for i := range r.Coverage {
		if c := &r.Coverage[i]; !c.Covered() {
			add(annotation.Finding{Level: annotation.Note, Rule: ruleCoverage, Object: c.Kind + " " + c.Name,
				Outcome: "isn't covered", Text: c.String()}, c.Source)
		}
	}
	return report
}

func summary(differences []suite.Difference) string {
	var fields []string
	for _, d := range differences {
		fields = append(fields, d.Field)
	}
	return "differs in " + strings.Join(fields, ", ")
}

// outcomeWord returns the word that begins the lines of a case.
func outcomeWord(o Outcome) string {
	if o == Failed {
		return "FAIL"
	}
	return strings.ToUpper(string(o))
}
