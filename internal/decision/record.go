// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/plugin"
)

// record holds a request that is over. Its decision is made when somebody reads it: to compare what
// was changed takes longer than the rest of the recording, and most decisions are never read.
type record struct {
	decision v1alpha1.Decision // without steps
	steps    []step
	values   Values
	class    class
	// clientsID reports whether the client chose the audit ID.
	clientsID bool
	revision  uint64
	gone      bool // there is no room for it any more
	size      int  // bytes of memory, roughly

	comparing sync.Once
	changes   []change
}

// change holds what a step or a call changed. It becomes a patch when the record is compared.
type change struct {
	changes *jsondiff.Changes
	step    int // the step's index
	call    int // the call's index in the step, wholeStep for the step itself
	// secret reports whether it may contain values of a Secret that a policy reads.
	secret bool

	patch []v1alpha1.PatchOperation
	isCut bool
}

const wholeStep = -1

// These are about the numbers of bytes that a record takes without steps, that a step takes, and
// that a call and a change take without their texts.
const (
	recordSize = 1200
	stepSize   = 64
	callSize   = 300
	changeSize = 300
)

// class says for how long a decision is kept, compared with others.
type class int

const (
	plain   class = iota // nothing was changed or refused
	changed              // the object was changed
	refused              // or failed
	classes
)

// complete sets the class and the size of a record. Changes with values of Secrets, and large ones,
// are compared at once, so that the values aren't kept.
func (r *record) complete() {
	r.class = r.classify()
	texts := r.decision.Message + r.decision.Request.UserAgent + r.decision.Request.User.Username
	r.size = recordSize + len(texts) + len(r.steps)*stepSize
	for _, group := range r.decision.Request.User.Groups {
		r.size += len(group)
	}
	hasSecret := r.secrets().ofSecret()
	for i := range r.steps {
		if more := r.steps[i].details; more != nil {
			r.size += len(more.message) + sizeOfCalls(more.calls)
		}
	}
	changes := 0
	for i := range r.changes {
		changes += r.changes[i].changes.Size() + changeSize
		hasSecret = hasSecret || r.changes[i].secret
	}
	if hasSecret || changes > maxPatch {
		r.compare()
		changes = 0
		for i := range r.changes {
			changes += sizeOfPatch(r.changes[i].patch)
		}
	}
	r.size += changes
}

func sizeOfCalls(calls []v1alpha1.Call) int {
	n := 0
	for i := range calls {
		c := &calls[i]
		n += callSize + len(c.Expression) + len(c.Why) + sizeOfPatch(c.Patch)
		for _, texts := range [][]string{c.Reads, c.Warnings} {
			for _, text := range texts {
				n += len(text)
			}
		}
	}
	return n
}

func sizeOfPatch(patch []v1alpha1.PatchOperation) int {
	n := 0
	for _, o := range patch {
		if n += len(o.Path) + stepSize; o.Value != nil {
			n += len(o.Value.Raw)
		}
	}
	return n
}

// classify returns the class.
func (r *record) classify() class {
	d := &r.decision
	if d.Verdict != v1alpha1.Admitted && !v1alpha1.Everyday(d) {
		return refused
	}
	for i := range r.steps {
		if s := &r.steps[i]; s.verdict != plugin.Admitted || s.details != nil && len(s.details.calls) > 0 {
			return changed
		}
	}
	if len(r.changes) > 0 {
		return changed
	}
	return plain
}

// secrets returns the rules for hiding values of the request's objects.
func (r *record) secrets() secrets {
	request := &r.decision.Request
	return secrets{schema.GroupResource{Group: request.Group, Resource: request.Resource}, r.values}
}

// compare makes patches of the changes, without the secrets in them, and forgets the rest.
func (r *record) compare() {
	r.comparing.Do(func() {
		for i := range r.changes {
			c := &r.changes[i]
			c.patch, c.isCut = r.patch(c)
			c.changes = nil
		}
	})
}

// changedBy returns the plugins that changed the object, in order.
func (r *record) changedBy() []string {
	r.compare()
	var names []string
	for i := range r.changes {
		c := &r.changes[i]
		if name := r.steps[c.step].plugin; c.call == wholeStep && (len(c.patch) > 0 || c.isCut) &&
			!slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// made returns the decision. It may be changed.
func (r *record) made() *v1alpha1.Decision {
	d := r.decision.DeepCopy()
	d.ChangedBy = r.changedBy()
	if r.revision != 0 {
		d.ResourceVersion = revisionString(r.revision)
	}
	for i := range r.steps {
		d.Steps = append(d.Steps, r.steps[i].decided())
	}
	for i := range r.changes {
		c := &r.changes[i]
		s := &d.Steps[c.step]
		patch := slices.Clone(c.patch)
		if c.call != wholeStep {
			s.Calls[c.call].Patch, s.Calls[c.call].PatchCut = patch, c.isCut
			continue
		}
		s.Patch, s.PatchCut = patch, c.isCut
	}
	shorten(d)
	return d
}

// shorten drops the patches of a decision that is too large, and then the calls.
func shorten(d *v1alpha1.Decision) {
	for _, drop := range []func(*v1alpha1.Step){dropPatches, dropCalls} {
		n := 0
		for i := range d.Steps {
			s := &d.Steps[i]
			n += 2*stepSize + len(s.Message) + sizeOfPatch(s.Patch) + sizeOfCalls(s.Calls)
		}
		if n <= maxDecision {
			return
		}
		for i := range d.Steps {
			drop(&d.Steps[i])
		}
	}
}

// patch returns the patch of a change without the secrets in it, and reports whether it was too
// large to be kept whole.
func (r *record) patch(c *change) (patch []v1alpha1.PatchOperation, isCut bool) {
	// Objects that were decoded can be encoded, so an error is a defect.
	changed, err := c.changes.Patch()
	if err != nil {
		klog.ErrorS(err, "Cannot compare an object with itself before a plugin", "plugin", r.steps[c.step].plugin,
			"decision", klog.KObj(&r.decision))
	}
	patch = operations(changed)
	if c.secret {
		hideValues(patch)
	}
	return limited(r.secrets().ofPatch(patch))
}

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

// dropPatches takes the patches out of a step.
func dropPatches(s *v1alpha1.Step) {
	s.PatchCut, s.Patch = s.PatchCut || len(s.Patch) > 0, nil
	for i := range s.Calls {
		c := &s.Calls[i]
		c.PatchCut, c.Patch = c.PatchCut || len(c.Patch) > 0, nil
	}
}

// dropCalls takes out of a step whatever else may be large.
func dropCalls(s *v1alpha1.Step) {
	s.OmittedCalls += int32(len(s.Calls))
	s.Calls, s.Message = nil, cutAt(s.Message, maxName)
}
