// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/jsondiff"
)

// record holds a request that is over, until it becomes a decision.
type record struct {
	decision v1alpha1.Decision
	changes  []change
	values   Values
	class    class
	// clientsID reports whether the client chose the audit ID.
	clientsID bool
}

// change holds what a step or a call changed. It becomes a patch once the request was answered.
type change struct {
	*jsondiff.Changes
	step int // the step's index
	call int // the call's index in the step, wholeStep for the step itself
	// secret reports whether it may contain values of a Secret that a policy reads.
	secret bool
}

const wholeStep = -1

// stepSize is the memory of a step, without what it points to.
var stepSize = int(reflect.TypeFor[v1alpha1.Step]().Size())

// class says for how long a decision is kept, compared with others.
type class int

const (
	plain   class = iota // nothing was changed or refused
	changed              // the object was changed
	refused              // or failed
	classes
)

// classify returns the class.
func (r *record) classify() class {
	d := &r.decision
	if d.Verdict != v1alpha1.Admitted && !v1alpha1.Everyday(d) {
		return refused
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.Verdict != v1alpha1.Admitted || hasChanged(s) || len(s.Calls) > 0 {
			return changed
		}
	}
	return plain
}

// size returns about how many bytes of memory the record takes.
func (r *record) size() int {
	n := entryOverhead + len(r.decision.Steps)*stepSize
	for i := range r.changes {
		n += r.changes[i].Size()
	}
	for i := range r.decision.Steps {
		for _, o := range r.decision.Steps[i].Patch { // the record is settled
			if n += len(o.Path); o.Value != nil {
				n += len(o.Value.Raw)
			}
		}
	}
	return n
}

// secrets returns the rules for hiding values of the request's objects.
func (r *record) secrets() secrets {
	request := &r.decision.Request
	return secrets{schema.GroupResource{Group: request.Group, Resource: request.Resource}, r.values}
}

// settle makes patches of the changes, without the secrets in them, and sets the class.
func (r *record) settle() {
	d := &r.decision
	for i := range r.changes {
		change := &r.changes[i]
		step := &d.Steps[change.step]
		patch, isCut := r.patch(change)
		if change.call != wholeStep {
			call := &step.Calls[change.call]
			call.Patch, call.PatchCut = patch, isCut
			continue
		}
		step.Patch, step.PatchCut = patch, isCut
		if hasChanged(step) && !slices.Contains(d.ChangedBy, step.Plugin) {
			d.ChangedBy = append(d.ChangedBy, step.Plugin)
		}
	}
	r.changes = nil
	r.class = r.classify()
}

// patch returns the patch of a change without the secrets in it, and reports whether it was too
// large to be kept whole.
func (r *record) patch(c *change) (patch []v1alpha1.PatchOperation, isCut bool) {
	// Objects that were decoded can be encoded, so an error is a defect.
	changed, err := c.Patch()
	if err != nil {
		d := &r.decision
		klog.ErrorS(err, "Cannot compare an object with itself before a plugin", "plugin", d.Steps[c.step].Plugin,
			"decision", klog.KObj(d))
	}
	patch = operations(changed)
	if c.secret {
		hideValues(patch)
	}
	return limited(r.secrets().ofPatch(patch))
}

// hasChanged reports whether the plugin changed the object.
func hasChanged(s *v1alpha1.Step) bool { return len(s.Patch) > 0 || s.PatchCut }

// operations returns a patch in the API's form.
func operations(patch []jsondiff.Operation) []v1alpha1.PatchOperation {
	var shown []v1alpha1.PatchOperation
	for _, o := range patch {
		operation := v1alpha1.PatchOperation{Op: o.Op, Path: o.Path}
		if o.Value != nil {
			operation.Value = &v1alpha1.Value{Raw: o.Value}
		}
		shown = append(shown, operation)
	}
	return shown
}
