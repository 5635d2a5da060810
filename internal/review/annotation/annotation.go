// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package annotation writes findings about files as SARIF, which code hosts show beside the lines, and as
// commands of GitHub's workflows, which show them in pull requests.
package annotation

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gatehouse.dev/internal/terminal"
)

// A Level says how grave a finding is.
type Level string

// The levels, as SARIF has them.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// commands are the commands of GitHub's workflows for levels.
var commands = map[Level]string{Error: "error", Warning: "warning", Note: "notice"}

// A Finding is about an object.
type Finding struct {
	Level Level
	// Rule is the name under which the finding is filed, such as the plugin that refused.
	Rule string
	// Object names the object, and Outcome, which may be empty, says what came of it: "is refused".
	Object, Outcome string
	Text            string
	// File is where the object stands; empty if it isn't from a file. Line is 0 if it isn't known.
	File string
	Line int
}

// A Rule is what findings are filed under.
type Rule struct {
	// Title says in a few words what is found.
	Title string
	// Help says what that means and what to do, in Markdown.
	Help string
}

// A Report has findings.
type Report struct {
	// Command is the command that made the report, such as gatehouse review; Version is the program's.
	Command, Version string
	Findings         []Finding
	// Rules say more about the findings' rules, by their names. A rule may be missing.
	Rules map[string]Rule
	Notes []string
	// Partial is true if not everything was looked at.
	Partial bool
	// Summary is a line of text, which is a part of what GitHub writes only.
	Summary string
}

// The parts of SARIF 2.1.0 that are written.
type (
	run struct {
		Tool struct {
			Driver driver `json:"driver"`
		} `json:"tool"`
		Results     []result     `json:"results"`
		Invocations []invocation `json:"invocations"`
	}
	driver struct {
		Name           string `json:"name"`
		Version        string `json:"version"`
		InformationURI string `json:"informationUri"`
		Rules          []rule `json:"rules"`
	}
	rule struct {
		ID               string `json:"id"`
		ShortDescription text   `json:"shortDescription"`
		Help             *help  `json:"help,omitempty"`
	}
	help struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown"`
	}
	text struct {
		Text string `json:"text"`
	}
	result struct {
		RuleID    string     `json:"ruleId"`
		Level     Level      `json:"level"`
		Message   text       `json:"message"`
		Locations []location `json:"locations"`
	}
	location struct {
		Physical *physicalLocation `json:"physicalLocation,omitempty"`
		Logical  []logicalLocation `json:"logicalLocations,omitempty"`
	}
	physicalLocation struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			StartLine int `json:"startLine"`
		} `json:"region"`
	}
	logicalLocation struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	invocation struct {
		ExecutionSuccessful bool           `json:"executionSuccessful"`
		Notifications       []notification `json:"toolExecutionNotifications"`
	}
	notification struct {
		Level   Level `json:"level"`
		Message text  `json:"message"`
	}
)

// SARIF writes the report as SARIF 2.1.0.
func (r *Report) SARIF(w io.Writer) error {
	var one run
	one.Tool.Driver = driver{Name: "gatehouse", Version: r.Version, InformationURI: "https://gatehouse.dev",
		Rules: []rule{}}
	one.Results = []result{}
	seen := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		if !seen[f.Rule] {
			seen[f.Rule] = true
			about := rule{ID: f.Rule, ShortDescription: text{f.Rule}}
			if known, ok := r.Rules[f.Rule]; ok {
				about.ShortDescription.Text, about.Help = known.Title, &help{known.Help, known.Help}
			}
			one.Tool.Driver.Rules = append(one.Tool.Driver.Rules, about)
		}
		at := location{Logical: []logicalLocation{{f.Object, "resource"}}}
		if f.File != "" {
			at = location{Physical: &physicalLocation{}}
			at.Physical.Artifact.URI, at.Physical.Region.StartLine = filepath.ToSlash(f.File), max(f.Line, 1)
		}
		one.Results = append(one.Results, result{f.Rule, f.Level, text{f.Object + ": " + f.Text}, []location{at}})
	}
	notes := []notification{}
	for _, note := range r.Notes {
		notes = append(notes, notification{Note, text{note}})
	}
	one.Invocations = []invocation{{!r.Partial, notes}}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []run  `json:"runs"`
	}{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []run{one}})
}

// GitHub writes the report as commands of GitHub's workflows.
func (r *Report) GitHub(w io.Writer) error {
	for i := range r.Findings {
		f := &r.Findings[i]
		place := ""
		if f.File != "" {
			place = fmt.Sprintf("file=%s,line=%d,", escapeProperty(f.File), max(f.Line, 1))
		}
		title := f.Object
		if f.Outcome != "" {
			title += " " + f.Outcome
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", commands[f.Level], place, escapeProperty(title),
			escapeData(f.Text)); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "::notice title=%s::%s\n", escapeProperty(r.Command), escapeData(note))
	}
	_, err := fmt.Fprintln(w, r.Summary)
	return err
}

// escapeData and escapeProperty escape characters that are special in a workflow command.
func escapeData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(terminal.Escape(text))
}

func escapeProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(text))
}
