package review

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/junit"
	"gatehouse.dev/internal/terminal"
)

// problemText returns everything that is wrong with an object, or "".
func (r *Result) problemText() string {
	var words []string
	if r.Verdict != v1alpha1.Admitted {
		words = append(words, r.why())
	}
	for _, pods := range r.Pods {
		if pods.Admitted < pods.Wanted {
			words = append(words, pods.String())
		}
	}
	return strings.Join(words, "\n")
}

// title names the object, or the file if there is no object.
func (r *Result) title() string {
	if r.Object == (Object{}) {
		return r.Source.File
	}
	return r.Object.String()
}

// line returns the line of the object, or 1 if the result is about a whole file.
func (r *Result) line() int { return max(r.Source.Line, 1) }

// ruleID returns the name under which a refusal is filed: the plugin that refused, or the reason of
// the answer.
func (r *Result) ruleID() string {
	for _, d := range append([]*v1alpha1.Decision{r.Decision}, decisions(r.Pods)...) {
		switch {
		case d == nil || d.Verdict == v1alpha1.Admitted:
		case d.By != "":
			return d.By
		case d.Reason != "":
			return string(d.Reason)
		}
	}
	return string(v1alpha1.Failed)
}

func decisions(pods []Pods) []*v1alpha1.Decision {
	var all []*v1alpha1.Decision
	for _, p := range pods {
		all = append(all, p.Decision)
	}
	return all
}

// junit prints a test suite for each file, a case for each object.
func (p Print) junit(w io.Writer, review *Review) error {
	var suites []junit.Suite
	byFile := map[string]int{}
	for i := range review.Results {
		r := &review.Results[i]
		at, ok := byFile[r.Source.File]
		if !ok {
			at, byFile[r.Source.File] = len(suites), len(suites)
			suites = append(suites, junit.Suite{Name: r.Source.File})
		}
		c := junit.Case{Name: r.title(), ClassName: r.Source.File, File: r.Source.File, Line: r.line(),
			Output: strings.Join(r.Warnings, "\n")}
		if words := r.problemText(); words != "" {
			problem := &junit.Problem{Message: words, Type: r.ruleID(), Text: fmt.Sprintf("%s: %s", r.Source, words)}
			if r.Verdict == v1alpha1.Failed {
				c.Error = problem
			} else {
				c.Failure = problem
			}
		}
		suites[at].Cases = append(suites[at].Cases, c)
	}
	return junit.Write(w, suites)
}

// sarif prints the refusals as SARIF 2.1.0, which code hosts show beside the lines.
func (p Print) sarif(w io.Writer, review *Review) error {
	type object = map[string]any
	results, rules, seen := []object{}, []object{}, map[string]bool{}
	for i := range review.Results {
		r := &review.Results[i]
		add := func(level, rule, text string) {
			if !seen[rule] {
				seen[rule] = true
				rules = append(rules, object{"id": rule, "shortDescription": object{"text": rule}})
			}
			location := object{"physicalLocation": object{
				"artifactLocation": object{"uri": filepath.ToSlash(r.Source.File)},
				"region":           object{"startLine": r.line()},
			}}
			results = append(results, object{"ruleId": rule, "level": level,
				"message": object{"text": r.title() + ": " + text}, "locations": []object{location}})
		}
		if words := r.problemText(); words != "" {
			add("error", r.ruleID(), words)
		}
		for _, warning := range r.Warnings {
			add("warning", "Warning", warning)
		}
	}
	notes := []object{}
	for _, note := range review.Notes {
		notes = append(notes, object{"level": "note", "message": object{"text": note}})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool": object{"driver": object{"name": "gatehouse", "version": p.Version,
				"informationUri": "https://gatehouse.dev", "rules": rules}},
			"results":     results,
			"invocations": []object{{"executionSuccessful": true, "toolExecutionNotifications": notes}},
		}},
	})
}

// github prints commands of GitHub's workflows, which show refusals and warnings beside the lines.
func (p Print) github(w io.Writer, review *Review) error {
	for i := range review.Results {
		r := &review.Results[i]
		annotate := func(kind, title, text string) {
			fmt.Fprintf(w, "::%s file=%s,line=%d,title=%s::%s\n", kind, escapeProperty(r.Source.File), r.line(),
				escapeProperty(title), escapeData(text))
		}
		if words := r.problemText(); words != "" {
			became := " is refused"
			if r.Verdict == v1alpha1.Failed {
				became = " can't be judged"
			}
			annotate("error", r.title()+became, words)
		}
		for _, warning := range r.Warnings {
			annotate("warning", r.title(), warning)
		}
	}
	for _, note := range review.Notes {
		fmt.Fprintf(w, "::notice title=gatehouse review::%s\n", escapeData(note))
	}
	s := review.Summary
	_, err := fmt.Fprintf(w, "%d admitted, %d refused, %d failed\n", s.Admitted, s.Refused, s.Failed)
	return err
}

// escapeData and property escape characters that are special in a workflow command.
func escapeData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(terminal.Escape(text))
}

func escapeProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(text))
}
