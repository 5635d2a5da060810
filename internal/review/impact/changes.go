// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
)

// A Change is a field that has another value with the candidate than without it.
type Change struct {
	v1alpha1.PatchOperation
	// Was is the value without the candidate; nil if there is none, or if it isn't known.
	Was *v1alpha1.Value `json:"was,omitempty"`
}

// ChangesBeside returns the fields that have another value by a decision than by another one on the same request, which
// may be nil. sent returns the value at a JSON pointer in the request's object, or nil.
func ChangesBeside(d, other *v1alpha1.Decision, sent func(pointer string) *v1alpha1.Value) []Change {
	own, theirs := why.PatchOf(d), why.PatchOf(other)
	last := func(patch []v1alpha1.PatchOperation, path string) *v1alpha1.PatchOperation {
		for i := range slices.Backward(patch) {
			if patch[i].Path == path {
				return &patch[i]
			}
		}
		return nil
	}
	var all []Change
	for _, o := range why.OperationsBeside(own, theirs) {
		c := Change{PatchOperation: o}
		if before := last(theirs, o.Path); before != nil {
			c.Was = before.Value
		} else if o.Op != "add" {
			c.Was = sent(o.Path)
		}
		all = append(all, c)
	}
	for _, o := range why.OperationsBeside(theirs, own) {
		if last(own, o.Path) != nil {
			continue
		}
		c := Change{PatchOperation: v1alpha1.PatchOperation{Op: "remove", Path: o.Path}, Was: o.Value}
		switch o.Op {
		case "replace":
			c.Op, c.Value = "replace", sent(o.Path)
		case "remove":
			c.Op, c.Value = "add", sent(o.Path)
		}
		all = append(all, c)
	}
	return all
}

// ChangersBeside returns the policies, webhooks and so on whose changes a decision has and another one has not, and the
// plugin of each step that differs without them. other may be nil.
func ChangersBeside(d, other *v1alpha1.Decision) []Policy {
	if d == nil {
		return nil
	}
	var changers []why.Refusal
	for i := range d.Steps {
		step := &d.Steps[i]
		if !step.PatchCut && len(why.OperationsBeside(step.Patch, patchOf(other, step.Plugin, nil))) == 0 {
			continue
		}
		named := false
		for j := range step.Calls {
			call := &step.Calls[j]
			if call.PatchCut || len(why.OperationsBeside(call.Patch, patchOf(other, step.Plugin, call))) > 0 {
				changers, named = append(changers, why.Refusal{Source: why.Source{Plugin: step.Plugin, Call: call}}), true
			}
		}
		if !named {
			changers = append(changers, why.Refusal{Source: why.Source{Plugin: step.Plugin}})
		}
	}
	return policies(changers)
}

// patchOf returns what a plugin changed by a decision, in all its steps, or what a call of it changed if call isn't nil.
func patchOf(d *v1alpha1.Decision, plugin string, call *v1alpha1.Call) []v1alpha1.PatchOperation {
	if d == nil {
		return nil
	}
	var all []v1alpha1.PatchOperation
	for i := range d.Steps {
		step := &d.Steps[i]
		switch {
		case step.Plugin != plugin:
		case call == nil:
			all = append(all, step.Patch...)
		default:
			for j := range step.Calls {
				if c := &step.Calls[j]; c.Kind == call.Kind && c.Name == call.Name && c.Configuration == call.Configuration &&
					c.Binding == call.Binding && c.Param == call.Param {
					all = append(all, c.Patch...)
				}
			}
		}
	}
	return all
}

// shownChanges returns the first fields that change, in the form of a diff.
func shownChanges(changes []Change) []string {
	var lines []string
	for _, c := range changes[:min(len(changes), maxChanges)] {
		was, is := fields(c.Path, c.Was), fields(c.Path, c.Value)
		switch {
		case c.Op == "remove" && c.Was == nil:
			was = []string{why.ChangesIn([]v1alpha1.PatchOperation{c.PatchOperation})[0].Field}
			fallthrough
		case c.Op == "remove":
			is = nil
		}
		for _, field := range was {
			if !slices.Contains(is, field) {
				lines = append(lines, cut("- "+field, maxTextLength))
			}
		}
		for _, field := range is {
			if !slices.Contains(was, field) {
				lines = append(lines, cut("+ "+field, maxTextLength))
			}
		}
	}
	if n := len(changes) - maxChanges; n > 0 {
		lines = append(lines, count(n, "more field"))
	}
	return lines
}

// fields returns the fields below a path with their values; none if the value is nil.
func fields(path string, value *v1alpha1.Value) []string {
	if value == nil {
		return nil
	}
	var all []string
	for _, c := range why.ChangesIn([]v1alpha1.PatchOperation{{Op: "add", Path: path, Value: value}}) {
		all = append(all, c.Field+": "+c.Value)
	}
	return all
}
