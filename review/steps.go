// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/decision/why"
)

// changes returns the fields that plugins, webhooks and policies changed, as a diff: each with its
// value in the object as it was sent, if it has one, and the new value. The lines that say who changed
// them begin with changed.
func changes(d *v1alpha1.Decision, object *unstructured.Unstructured, changed string) []string {
	var lines []string
	by := ""
	var fields map[string]any
	if object != nil {
		fields = object.Object
	}
	sent := why.NewSentObject(d, fields)
	for i, c := range why.Explain(d, nil).Changes {
		if source := c.Source.String(); source != by || i == 0 {
			by = source
			lines = append(lines, changed+" by "+by+":")
		}
		if before, ok := sent.Value(c.Field); ok && before != c.Value && c.Value != decision.HiddenValue {
			lines = append(lines, fmt.Sprintf("- %s: %s", c.Field, before))
		} else if c.Removed {
			lines = append(lines, fmt.Sprintf("- %s", c.Field))
		}
		if !c.Removed {
			lines = append(lines, fmt.Sprintf("+ %s: %s", c.Field, c.Value))
		}
	}
	for i := range d.Steps {
		if d.Steps[i].PatchCut {
			lines = append(lines, changed+" by "+d.Steps[i].Plugin+": more than is shown")
		}
	}
	return lines
}

// steps returns what each plugin did, and each webhook and policy in it.
func steps(d *v1alpha1.Decision) []string {
	var lines []string
	for i := range d.Steps {
		s := &d.Steps[i]
		line := fmt.Sprintf("%s %s: %s in %s", s.Phase, s.Plugin, strings.ToLower(string(s.Verdict)),
			decision.Took(s.Duration.Duration))
		if s.Round > 0 {
			line += ", once more"
		}
		if n := len(s.Patch); n > 0 {
			line += ", " + count.Of(n, "change")
		}
		if s.Message != "" {
			line += ": " + s.Message
		}
		lines = append(lines, line)
		for j := range s.Calls {
			c := &s.Calls[j]
			_, name, _ := strings.Cut(why.Source{Plugin: s.Plugin, Phase: s.Phase, Call: c}.String(), ": ")
			line := fmt.Sprintf("  %s: %s", name, strings.ToLower(string(c.Verdict)))
			if c.FailedOpen {
				line += ", and its failurePolicy is Ignore"
			}
			if c.Why != "" {
				line += ": " + c.Why
			}
			lines = append(lines, line)
			if c.Expression != "" {
				lines = append(lines, "    "+c.Expression)
			}
			for _, warning := range c.Warnings {
				lines = append(lines, "    warns: "+warning)
			}
		}
		if s.OmittedCalls > 0 {
			lines = append(lines, fmt.Sprintf("  and %d more", s.OmittedCalls))
		}
	}
	return lines
}
