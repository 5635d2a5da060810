// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/annotation"
	"gatehouse.dev/internal/review/junit"
	"gatehouse.dev/internal/review/policyreport"
)

// effectWords are words for effects in which an object or a request is the subject, by the kind of report.
var effectWords = map[string][effects]string{
	Audit: {"would be refused", "would be admitted that is refused now", "would be changed", "would get a warning"},
	Replay: {"would have been refused", "would have been admitted that was refused", "would have been changed",
		"would have got a warning"},
}

// outcome returns what would come of a result that differs.
func (r *Report) outcome(result *Result) string { return effectWords[r.kind][result.effect()] }

// explain returns the reason of a policy's part in a result that differs.
func (r *Result) explain(p *Policy) string {
	e := r.effect()
	text := r.reason(e, p)
	if e == changes {
		text = strings.Join(shownChanges(r.Changes), "\n")
	}
	if text == "" {
		text = "no reason is known"
	}
	if p.Plugin == "" {
		return text
	}
	return fmt.Sprintf("by %s: %s", p.describe(), text)
}

// Reason returns why a result differs, in the words of all its policies.
func (r *Result) Reason() string {
	var all []string
	for _, p := range r.policies() {
		all = append(all, r.explain(&p))
	}
	return strings.Join(all, "\n")
}

// title names a result: its object, or its request.
func (r *Report) title(result *Result) string {
	if r.kind == Audit {
		return result.Object.String()
	}
	return result.Request.User.Username + ": " + result.Request.Operation + " " + result.Object.String()
}

// place returns the file and the line of a result; empty if it isn't from a file.
func (r *Result) place() (file string, line int) {
	if r.Source == nil {
		return "", 0
	}
	return r.Source.File, r.Source.Line
}

// junit writes a test suite with a case for each result. Those that differ have failed.
func (r *Report) junit(w io.Writer) error {
	suite := junit.Suite{Name: "gatehouse " + strings.ToLower(r.kind)}
	for result, err := range r.results.results() {
		if err != nil {
			return err
		}
		c := junit.Case{Name: r.title(result), ClassName: strings.TrimSuffix(suite.Name+" "+result.Object.Namespace, " ")}
		c.File, c.Line = result.place()
		switch {
		case result.Unjudged != "":
			c.Skipped = &junit.Skip{Message: strings.TrimSuffix("not judged: "+result.Unjudged+": "+result.Message, ": ")}
		case result.Known:
			c.Skipped = &junit.Skip{Message: r.outcome(result) + ", as the baseline says"}
		case result.Differs:
			policy := result.policies()[0]
			c.Failure = &junit.Problem{Message: r.outcome(result) + ": " + result.explain(&policy), Type: policy.rule(),
				Text: result.Reason()}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if r.summary.Interrupted {
		suite.Cases = append(suite.Cases, junit.Case{Name: "all are judged", ClassName: suite.Name,
			Error: &junit.Problem{Message: "interrupted: not everything was judged", Type: "Interrupted"}})
	}
	suite.Cases = append(suite.Cases, r.junitProblems(suite.Name)...)
	return junit.Write(w, []junit.Suite{suite})
}

// rule returns the name under which findings of a policy are filed.
func (p *Policy) rule() string {
	if p.Plugin == "" {
		return "API"
	}
	return p.String()
}

// annotate writes the differences for code hosts, as sarif or github.
func (r *Report) annotate(w io.Writer, format string) error {
	report := &annotation.Report{Command: "gatehouse " + strings.ToLower(r.kind), Version: r.options.Version,
		Notes: r.notesBesideProblems(), Summary: r.Headline(), Partial: r.summary.Interrupted || len(r.problems) > 0}
	report.Findings = r.problemFindings(report.Command)
	levels := [effects]annotation.Level{annotation.Error, annotation.Warning, annotation.Note, annotation.Warning}
	for result, err := range r.results.results() {
		if err != nil {
			return err
		}
		if !result.Differs || result.Known || result.Unjudged != "" {
			continue
		}
		for _, p := range result.policies() {
			f := annotation.Finding{Level: levels[result.effect()], Rule: p.rule(), Object: r.title(result),
				Outcome: r.outcome(result), Text: result.explain(&p)}
			f.File, f.Line = result.place()
			report.Findings = append(report.Findings, f)
		}
	}
	if format == "sarif" {
		return report.SARIF(w)
	}
	return report.GitHub(w)
}

// policyReports returns the results as reports of policies, which clusters keep.
func (r *Report) policyReports(format string) ([]policyreport.Report, error) {
	now := time.Now()
	source := "gatehouse"
	findings := r.problemResults(policyreport.Finding{Policy: strings.ToLower(r.kind), Time: now})
	for result, err := range r.results.results() {
		if err != nil {
			return nil, err
		}
		f := policyreport.Finding{Policy: strings.ToLower(r.kind), Result: policyreport.Pass, Time: now,
			Object: corev1.ObjectReference{APIVersion: result.Object.APIVersion, Kind: result.Object.Kind,
				Namespace: result.Object.Namespace, Name: result.Object.Name}, Properties: result.properties(r.kind)}
		if result.Time != nil {
			f.Time = result.Time.Time
		}
		switch {
		case result.Unjudged != "":
			f.Result = policyreport.Skip
			f.Message = strings.TrimSuffix("not judged: "+result.Unjudged+": "+result.Message, ": ")
		case result.Differs:
			f.Result = result.finding()
			for _, p := range result.policies() {
				f.Policy, f.Rule, f.Message = p.rule(), p.Expression, r.outcome(result)+" "+result.explain(&p)
				findings = append(findings, f)
			}
			continue
		}
		findings = append(findings, f)
	}
	return policyreport.New(policyreport.Format(format), "gatehouse-"+strings.ToLower(r.kind), source, findings)
}

// finding returns what reports of policies say of a result that differs.
func (r *Result) finding() policyreport.Result {
	switch {
	case r.effect() != refuses:
		return policyreport.Warn
	case r.Verdict == v1alpha1.Failed:
		return policyreport.Error
	}
	return policyreport.Fail
}

// properties returns further facts about a result.
func (r *Result) properties(kind string) map[string]string {
	all := map[string]string{"user": r.Request.User.Username, "operation": r.Request.Operation}
	if kind == Audit {
		all = map[string]string{"operations": r.refusedOperations()}
		if r.Owner != nil {
			all["owner"] = r.Owner.String()
		}
	}
	all["auditID"] = r.AuditID
	if r.Known {
		all["baseline"] = "known"
	}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}
