// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/markdown"
)

// markdown returns the review as a table, without the objects that are admitted without a warning.
func (p Print) markdown(review *Review) *markdown.Report {
	s := review.Summary
	report := &markdown.Report{Headline: fmt.Sprintf("gatehouse review: %d admitted, %d refused, %d failed", s.Admitted,
		s.Refused, s.Failed), Notes: slices.Clone(review.Notes)}
	var warned []markdown.Row
	for i := range review.Results {
		r := &review.Results[i]
		for _, webhook := range r.notAsked() {
			if note := "not asked: " + webhook; !slices.Contains(report.Gaps, note) {
				report.Gaps = append(report.Gaps, note)
			}
		}
		switch {
		case r.word() != string(v1alpha1.Admitted):
			report.Rows = append(report.Rows, p.row(r))
		case len(r.Warnings) > 0:
			warned = append(warned, p.row(r))
		}
	}
	report.Rows = append(report.Rows, warned...)
	return report
}

// row returns the row of an object.
func (p Print) row(r *Result) markdown.Row {
	object := r.Source.String()
	if r.Object != (Object{}) {
		object = r.Object.String() + "\n" + object
	}
	// The plugin that refuses has a column of its own, so the reason doesn't name it.
	bare := *r
	bare.Decision, bare.Pods = nil, slices.Clone(r.Pods)
	by, toPass := refuser(r.Decision), p.ownRemedies(r)
	for i, pods := range r.Pods {
		bare.Pods[i].Decision = nil
		if pods.Admitted < pods.Wanted {
			by, toPass = cmp.Or(by, refuser(pods.Decision)), append(toPass, p.remedies(pods.Decision)...)
		}
	}
	because := []string{bare.problemText()}
	for _, warning := range r.Warnings {
		because = append(because, "warning: "+warning)
	}
	return markdown.Row{Object: object, Verdict: strings.ToLower(r.word()), By: by, Because: strings.Join(because, "\n"),
		ToPass: strings.Join(toPass, "\n")}
}

// refuser returns who refused a request: a plugin, or the API itself. It is empty if nobody did.
func refuser(d *v1alpha1.Decision) string {
	if d == nil || d.Verdict == v1alpha1.Admitted {
		return ""
	}
	return cmp.Or(d.By, "the API itself")
}

// notAsked returns the webhooks, and other backends of plugins, that a cluster would ask about the object or its pods.
func (r *Result) notAsked() []string {
	all := webhooksNotAsked(r.Decision)
	for _, pods := range r.Pods {
		all = append(all, pods.NotAsked...)
	}
	return all
}
