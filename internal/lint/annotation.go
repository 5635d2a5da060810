// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/nearest"
)

// IgnoreAnnotation is the annotation with which an object ignores rules: "ID: reason", one on a line.
const IgnoreAnnotation = "lint.gatehouse.dev/ignore"

var annotationRules = []Rule{
	{"ignore-reason", Error, "an annotation ignores a rule without a reason", (*linting).ignoreReason},
}

// An ignoring is a line of the annotation.
type ignoring struct{ id, reason string }

// ignorings returns the lines of an object's annotation.
func ignorings(o *unstructured.Unstructured) (all []ignoring) {
	for line := range strings.Lines(o.GetAnnotations()[IgnoreAnnotation]) {
		id, reason, _ := strings.Cut(line, ":")
		if id = strings.TrimSpace(id); id != "" {
			all = append(all, ignoring{id, strings.TrimSpace(reason)})
		}
	}
	return all
}

// ignoredFor returns the reason for which an object ignores a rule. Without a reason it doesn't.
func ignoredFor(o *unstructured.Unstructured, id string) (reason string, ignored bool) {
	for _, i := range ignorings(o) {
		if i.id == id && i.reason != "" {
			return i.reason, true
		}
	}
	return "", false
}

func (l *linting) ignoreReason() {
	for _, d := range l.Documents {
		for _, i := range ignorings(d.Object) {
			p := place{d, "/metadata/annotations", ""}
			switch {
			case !slices.Contains(l.ids, i.id):
				l.add(p, Error, change{}, fmt.Sprintf("the annotation %s names %q, which is no rule%s: it has no effect",
					IgnoreAnnotation, i.id, nearest.Meant(i.id, l.ids)), "name a rule of docs/lint.md")
			case i.reason == "":
				l.add(p, Error, change{}, fmt.Sprintf("the annotation %s gives no reason for %s: it has no effect",
					IgnoreAnnotation, i.id), fmt.Sprintf("write the reason: %q", i.id+": why it is right here"))
			}
		}
	}
}
