// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/review/annotation"
	"gatehouse.dev/internal/review/junit"
	"gatehouse.dev/internal/terminal"
)

// Formats are the formats of a printed report, besides text.
var Formats = []string{"json", "yaml", "junit", "sarif", "github"}

// Write prints a report in a format, one of Formats or empty for text. version is the program's.
func (r *Report) Write(w io.Writer, format, version string) error {
	switch format {
	case "":
		return r.text(w)
	case "json", "yaml":
		return document.Write(w, format, r)
	case "junit":
		return r.junit(w)
	case "sarif":
		return r.annotations(version).SARIF(w)
	case "github":
		return r.annotations(version).GitHub(w)
	}
	return fmt.Errorf("output format %q: it is one of %s", format, strings.Join(Formats, ", "))
}

// text prints a paragraph for each finding.
func (r *Report) text(w io.Writer) error {
	var b strings.Builder
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "%-7s  %s  %s\n", f.Severity, f.ID, terminal.Line(strings.TrimSpace(f.Source.String()+"  "+f.title())))
		fmt.Fprintf(&b, "         %s\n         to fix: %s\n", terminal.Line(f.Message), terminal.Line(f.Remedy))
		if len(f.Patch) > 0 {
			fmt.Fprintf(&b, "         patch%s: %s\n", map[bool]string{true: " (--fix writes it)"}[f.Safe], f.patch())
		}
	}
	for _, i := range r.Ignored {
		fmt.Fprintf(&b, "ignored  %s  %s: %s\n", i.ID,
			terminal.Line(strings.TrimSpace(i.Source.String()+"  "+i.Object.String())), terminal.Line(i.Reason))
	}
	for _, u := range r.Unread {
		fmt.Fprintf(&b, "unread   %s\n", terminal.Line(u.String()))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	b.WriteString(r.headline() + "\n")
	return terminal.Write(w, b.String(), terminal.Palette{Begin: map[string]terminal.Color{
		string(Error): terminal.Red, string(Warning): terminal.Yellow, "unread": terminal.Red}})
}

// title names the object, and the part that has the mistake.
func (f *Finding) title() string {
	if f.Part == "" {
		return f.Object.String()
	}
	return f.Object.String() + " " + f.Part
}

// patch returns the patch in one line.
func (f *Finding) patch() string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(f.Patch); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// String returns the place, if it is known, and the reason.
func (u *Unread) String() string {
	if u.Source.File == "" {
		return u.Message
	}
	return u.Source.String() + ": " + u.Message
}

// headline counts everything.
func (r *Report) headline() string {
	s := r.Summary
	return fmt.Sprintf("%s, %s, %d ignored, %d unread", count.Of(s.Errors, "error"), count.Of(s.Warnings, "warning"), s.Ignored,
		s.Unread)
}

// explain returns what happens and what to do.
func (f *Finding) explain() string {
	text := f.Message + "\nto fix: " + f.Remedy
	if len(f.Patch) > 0 {
		text += "\npatch: " + f.patch()
	}
	return text
}

// junit prints a test suite for each file, with a case for each finding.
func (r *Report) junit(w io.Writer) error {
	var suites []junit.Suite
	byFile := map[string]int{}
	add := func(file string, c junit.Case) {
		file = cmp.Or(file, "cluster")
		at, ok := byFile[file]
		if !ok {
			at, byFile[file] = len(suites), len(suites)
			suites = append(suites, junit.Suite{Name: file})
		}
		c.ClassName = file
		suites[at].Cases = append(suites[at].Cases, c)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		c := junit.Case{Name: f.ID + ": " + f.title(), File: f.Source.File, Line: f.Source.Line}
		if f.Severity == Error {
			c.Failure = &junit.Problem{Message: f.Message, Type: f.ID, Text: f.Source.String() + ": " + f.explain()}
		} else {
			c.Output = f.explain()
		}
		add(f.Source.File, c)
	}
	for _, i := range r.Ignored {
		add(i.Source.File, junit.Case{Name: i.ID + ": " + i.Object.String(), File: i.Source.File, Line: i.Source.Line,
			Skipped: &junit.Skip{Message: "ignored: " + i.Reason}})
	}
	for _, u := range r.Unread {
		add(u.Source.File, junit.Case{Name: "unread", File: u.Source.File, Line: u.Source.Line,
			Error: &junit.Problem{Message: u.Message, Type: "Unread", Text: u.String()}})
	}
	return junit.Write(w, suites)
}

// annotations returns the findings for code hosts.
func (r *Report) annotations(version string) *annotation.Report {
	report := &annotation.Report{Command: cmp.Or(r.Command, "gatehouse lint"), Version: version, Notes: r.Notes, Summary: r.headline(),
		Partial: r.Summary.Unread > 0, Rules: map[string]annotation.Rule{}}
	for _, rule := range Rules {
		e := explanations[rule.ID]
		report.Rules[rule.ID] = annotation.Rule{Title: rule.Title, Help: e.effect + "\n\nTo fix it: " + e.remedy}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		report.Findings = append(report.Findings, annotation.Finding{Level: annotation.Level(f.Severity), Rule: f.ID,
			Object: f.title(), Outcome: "breaks " + f.ID, Text: f.explain(), File: f.Source.File, Line: f.Source.Line})
	}
	for _, u := range r.Unread {
		report.Findings = append(report.Findings, annotation.Finding{Level: annotation.Error, Rule: "unread",
			Object: "unread", Text: u.Message, File: u.Source.File, Line: u.Source.Line})
	}
	return report
}
