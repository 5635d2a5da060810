// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
)

// APIVersion and Kind identify a Report.
const (
	APIVersion = "gatehouse.dev/v1alpha1"
	Kind       = "Lint"
)

// A Report has the findings.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Findings   []Finding `json:"findings"`
	// Ignored are the findings that annotations of the objects ignore.
	Ignored []Ignored `json:"ignored,omitempty"`
	// Unread are objects and kinds that could not be read. Nothing is known about them.
	Unread []Unread `json:"unread,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Summary counts them.
	Summary Summary `json:"summary"`
	// Command is the command whose report it is; "gatehouse lint" if it is empty.
	Command string `json:"-"`
}

// Summary counts what a report has.
type Summary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Ignored  int `json:"ignored"`
	Unread   int `json:"unread"`
}

// A Finding is a mistake in an object.
type Finding struct {
	// ID is that of the rule.
	ID       string       `json:"id"`
	Severity Severity     `json:"severity"`
	Source   input.Source `json:"source"`
	Object   Object       `json:"object"`
	// Part is the name of the webhook or the field that has it; may be empty.
	Part string `json:"part,omitempty"`
	// Message says what happens, Remedy what to do about it.
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	// Patch is the change of the object, as kubectl patch --type=json takes it; empty if only the author can
	// know it. Safe reports whether --fix makes it.
	Patch []v1alpha1.PatchOperation `json:"patch,omitempty"`
	Safe  bool                      `json:"safe,omitempty"`

	// document is the one that has the mistake. Others may have objects of the same name.
	document input.Document
	// path is the JSON pointer of the mistake.
	path string
}

// Ignored is a finding that an annotation ignores.
type Ignored struct {
	ID     string       `json:"id"`
	Source input.Source `json:"source"`
	Object Object       `json:"object"`
	Part   string       `json:"part,omitempty"`
	Reason string       `json:"reason"`
}

// Unread is an object, a file or a kind that could not be read.
type Unread struct {
	Source  input.Source `json:"source"`
	Message string       `json:"message"`
}

// An Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns the kind and the name.
func (o Object) String() string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}

// Fail adds what could not be read.
func (r *Report) Fail(errs ...error) {
	r.Unread = append(r.Unread, UnreadOf(errs)...)
	r.summarize()
}

// UnreadOf returns what errors say that could not be read, with its place if one is an *input.Error.
func UnreadOf(errs []error) (all []Unread) {
	for _, err := range errs {
		u := Unread{Message: err.Error()}
		if e := (*input.Error)(nil); errors.As(err, &e) {
			u = Unread{Source: e.Source, Message: e.Err.Error()}
		}
		all = append(all, u)
	}
	return all
}

// sort orders the findings by their objects' places among the documents, and then by line. It counts them.
func (r *Report) sort(documents []input.Document) {
	order := map[*unstructured.Unstructured]int{}
	for i, d := range documents {
		order[d.Object] = i
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(order[a.document.Object]-order[b.document.Object], a.Source.Line-b.Source.Line)
	})
	r.summarize()
}

func (r *Report) summarize() {
	r.Summary = Summary{Ignored: len(r.Ignored), Unread: len(r.Unread)}
	for i := range r.Findings {
		if r.Findings[i].Severity == Error {
			r.Summary.Errors++
		} else {
			r.Summary.Warnings++
		}
	}
}

// The exit codes.
const (
	exitClean  = 0
	exitFound  = 1
	exitUnread = 2
)

// ExitCode returns 2 if something could not be read, 1 if there is a finding at least as grave as failOn, and
// otherwise 0.
func (r *Report) ExitCode(failOn Severity) int {
	switch {
	case r.Summary.Unread > 0:
		return exitUnread
	case r.Summary.Errors > 0, failOn == Warning && r.Summary.Warnings > 0:
		return exitFound
	}
	return exitClean
}
