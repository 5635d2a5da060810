// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// A recording holds what the chain has reported of a request that is not over yet.
//
// The chain may be called several times for one request. Storage calls it again after a conflict,
// an apply that finds nothing to update creates the object, and the deletion of a collection
// deletes each object by itself. The recording has the last attempt of each object. The decision is
// made of one attempt. Of a collection, each other object has a decision of its own.
type recording struct {
	start     time.Time
	info      *request.RequestInfo
	userAgent string
	values    Values
	// apart is true if the decision is returned, and not stored; see Decide.
	apart bool
	// clientsID is true if the client chose the audit ID.
	clientsID bool

	mu sync.Mutex // objects of a collection are deleted concurrently
	// only is the current attempt. If the request is about a collection, open has the current
	// attempts by the names of their objects.
	only *attempt
	open map[string]*attempt
	// first is the memory of the first attempt.
	first attempt
	// last is the attempt that ended last, or the first one that was refused.
	last *attempt
	// running is the plugin that is being called, and since the time of that call. For a collection
	// neither is set, as several of its objects pass the chain at a time.
	running     step
	since       time.Time
	chainCalled bool
	over        bool
}

// attempt is one pass of one object through the chain.
type attempt struct {
	request            v1alpha1.Request
	steps              []step
	changes            []change
	dropped            int // steps beyond maxSteps
	mutated, validated bool
	by                 string
	err                error
}

// stepsOfARequest is about the number of steps that a pod's creation has with the default plugins.
const stepsOfARequest = 32

type recordingKey struct{}

func withRecording(ctx context.Context, r *recording) context.Context {
	return context.WithValue(ctx, recordingKey{}, r)
}

// recordingOf returns the recording of the request, nil if there is none.
func recordingOf(ctx context.Context) *recording {
	r, _ := ctx.Value(recordingKey{}).(*recording)
	return r
}

// stepBegins records which plugin is called.
func (r *recording) stepBegins(s *plugin.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.isCollection() {
		return
	}
	r.attemptOf(s) // while its object may be looked at
	r.running, r.since = step{plugin: s.Plugin, phase: s.Phase, round: int32(s.Round)}, s.Start
}

// end ends the recording of a request that was answered with a code; 0 for no answer. It returns the
// attempt that the decision is made of, nil if the chain wasn't called, and reports whether the recording
// was over before.
func (r *recording) end(code int) (kept *attempt, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	over = r.over
	if !over && plugin.VerdictOfCode(int32(code)) == plugin.Failed {
		r.interrupt()
	}
	r.over = true
	return r.keptAttempt(), over
}

// interrupt adds a failed step for the plugin that is still running: the request ends without it.
func (r *recording) interrupt() {
	a := r.keptAttempt()
	if r.running.plugin == "" || a == nil || len(a.steps) == maxSteps {
		return
	}
	held := r.running
	held.duration, held.verdict = time.Since(r.since), plugin.Failed
	held.details = &details{message: "the request ended before the plugin did"}
	a.steps, a.by = append(a.steps, held), held.plugin
}

// stepDone records a plugin's step.
func (r *recording) stepDone(s *plugin.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running.plugin = ""
	if r.over {
		return
	}
	a := r.attemptOf(s)
	if s.Err != nil {
		a.by = s.Plugin
	}
	if len(a.steps) == maxSteps {
		a.dropped++
		return
	}
	var done step
	done, a.changes = newStep(s, len(a.steps), r.values, a.changes)
	a.steps = append(a.steps, done)
}

// enforced completes a plugin's step with the decision of the storage.
func (r *recording) enforced(s *plugin.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.currentAttempt(s.Attributes)
	if r.over || a == nil {
		return
	}
	if s.Err != nil {
		a.by, a.err = s.Plugin, s.Err
	}
	for i := len(a.steps) - 1; i >= 0; i-- {
		if kept := &a.steps[i]; kept.plugin == s.Plugin && kept.phase == s.Phase {
			late, _ := newStep(s, i, r.values, nil) // the storage changes nothing
			late.duration = kept.duration
			*kept = late
			return
		}
	}
}

// phaseDone records the end of a phase, and reports whether that decided the request. other is the attempt of another
// object of the collection, of which a decision can be made now, nil for none.
func (r *recording) phaseDone(p *plugin.PhaseStep) (decided bool, other *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false, nil
	}
	a := r.attempt(p.Attributes)
	if p.Phase == plugin.Mutating && a.mutated {
		a = r.startAttempt(p.Attributes) // no plugin was called
	}
	a.mutated = true
	a.describe(p.Attributes)
	a.err = p.Err
	if p.Phase == plugin.Mutating && p.Err == nil {
		return false, nil
	}
	a.validated = p.Phase == plugin.Validating
	if r.isCollection() {
		other = r.close(a)
	}
	return true, other
}

// isCollection reports whether the request is about many objects.
func (r *recording) isCollection() bool { return r.info.Verb == "deletecollection" }

// currentAttempt returns the current attempt for the object, nil if there is none.
func (r *recording) currentAttempt(a admission.Attributes) *attempt {
	if r.isCollection() {
		return r.open[nameOf(a)]
	}
	return r.only
}

// attempt returns the current attempt for the object, and starts one if there is none.
func (r *recording) attempt(a admission.Attributes) *attempt {
	if current := r.currentAttempt(a); current != nil {
		return current
	}
	return r.startAttempt(a)
}

// attemptOf returns the attempt that a step belongs to.
func (r *recording) attemptOf(s *plugin.Step) *attempt {
	a := r.attempt(s.Attributes)
	switch {
	case s.Phase == plugin.Mutating && a.mutated:
		a = r.startAttempt(s.Attributes)
	case s.Phase == plugin.Validating && a.validated:
		a.validateAgain()
	}
	return a
}

// startAttempt starts an attempt for the object, the first or another one.
func (r *recording) startAttempt(a admission.Attributes) *attempt {
	begins := &r.first
	if r.chainCalled {
		begins = &attempt{}
	}
	r.chainCalled = true
	begins.steps = make([]step, 0, stepsOfARequest)
	begins.describe(a)
	if !r.isCollection() {
		r.only = begins
		return begins
	}
	if r.open == nil {
		r.open = map[string]*attempt{}
	}
	r.open[nameOf(a)] = begins
	return begins
}

// validateAgain drops the steps of the validating phase. Storage validates again if a name that it
// generated is taken.
func (a *attempt) validateAgain() {
	a.validated, a.by, a.err = false, "", nil
	// These are the last ones, and have no changes.
	a.steps = slices.DeleteFunc(a.steps, func(s step) bool { return s.phase == plugin.Validating })
}

// close ends an attempt. The decision of the request is made of the attempt that ended last, or of the first one
// that was refused. close returns the attempt that no longer is that one, nil for none.
func (r *recording) close(a *attempt) (other *attempt) {
	delete(r.open, a.request.Name)
	kept := r.last
	if kept != nil && kept.err != nil && kept.request.Name != a.request.Name {
		return a
	}
	r.last = a
	if kept == nil || kept.request.Name == a.request.Name {
		return nil
	}
	return kept
}

// keptAttempt returns the attempt that the decision is made of, nil if the chain wasn't called.
func (r *recording) keptAttempt() *attempt {
	if r.last != nil || r.isCollection() {
		return r.last
	}
	return r.only
}

// nameOf returns the name of a request's object. Of a collection that is deleted only the objects have names.
func nameOf(a admission.Attributes) string {
	if name := a.GetName(); name != "" || a.GetOldObject() == nil {
		return name
	}
	if accessor, err := meta.Accessor(a.GetOldObject()); err == nil {
		return accessor.GetName()
	}
	return ""
}

// describe records what the request is about. Storage may generate the name late.
func (a *attempt) describe(attributes admission.Attributes) {
	resource, r := attributes.GetResource(), &a.request
	r.Operation = string(attributes.GetOperation())
	r.Group, r.Version, r.Resource = resource.Group, resource.Version, resource.Resource
	r.Subresource, r.DryRun = attributes.GetSubresource(), attributes.IsDryRun()
	r.Namespace = attributes.GetNamespace()
	if name := nameOf(attributes); name != "" {
		r.Name = name
	}
	object := attributes.GetObject()
	if object == nil {
		object = attributes.GetOldObject()
	}
	if object == nil || r.Subresource != "" {
		return
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	r.GenerateName = accessor.GetGenerateName()
	if owner := metav1.GetControllerOf(accessor); owner != nil && r.Owner == nil {
		r.Owner = &v1alpha1.Owner{Kind: owner.Kind, Name: owner.Name}
	}
}
