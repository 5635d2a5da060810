// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/jsondiff"
)

// An Observer learns what the chain does with each request. Metrics, traces and decisions are
// observers; a plugin holds no code for them.
//
// The chain calls an observer in the request's goroutine, concurrently for concurrent requests. An
// observer must not change the objects that it can reach through the attributes. [Observe] makes
// one from functions.
type Observer interface {
	// Wants returns what the observer reads of a step. The chain calls it once, when it is built,
	// and computes only what an observer wants.
	Wants() Wants

	// PhaseBegins is called before each phase with its Attributes and Phase. It returns the context
	// for the phase: the given one, or one made from it, such as that of a trace's span.
	PhaseBegins(ctx context.Context, phase PhaseStep) context.Context

	// StepBegins is called before each call of a plugin with the step's Attributes, Plugin, Phase,
	// Round and Start. It returns the context for the call, as PhaseBegins does.
	StepBegins(ctx context.Context, step Step) context.Context

	// StepDone is called after each call of a plugin, with the context that StepBegins returned.
	StepDone(ctx context.Context, step Step)

	// PhaseDone is called after each phase, whether or not the request was admitted, with the
	// context that PhaseBegins returned.
	PhaseDone(ctx context.Context, phase PhaseStep)
}

// Wants are the parts of a Step that cost something to compute.
type Wants struct {
	// Changes asks for Step.Changes, for which the chain compares the object before and after each
	// plugin that looks at it.
	Changes bool
	// Calls asks for Step.Calls.
	Calls bool
	// Objects asks for PhaseStep.Shown. The chain then handles every operation, also one that no
	// plugin is called for.
	Objects bool
}

// Step is one call of a plugin.
type Step struct {
	// Attributes are the request's, with its objects in the form in which the server holds them. In
	// the mutating phase they don't have the changes of plugins yet.
	Attributes admission.Attributes
	// Plugin is the plugin's name.
	Plugin string
	// Phase is Mutating or Validating.
	Phase Phase
	// Round is 0, or 1 in the re-run of the mutating phase.
	Round int
	// Start is the time at which the plugin was called.
	Start time.Time
	// Duration is the time that the call took. It includes the conversion of the object, but not
	// the comparison for Changes.
	Duration time.Duration
	// Err is the refusal or failure, nil if the plugin admitted the request. VerdictOf says which.
	Err error
	// Changes holds the plugin's changes of the object, including values of Secrets. It is nil if
	// the plugin changed nothing, if no observer wants changes, and in the validating phase.
	// Changes.Patch is slow: call it after the request has been answered.
	Changes *jsondiff.Changes
	// Calls are the webhooks, policies and so on that the plugin asked, in order. It is nil if no
	// observer wants calls.
	Calls []Call
	// Enforcement is set if the plugin left its decision to the storage, as ResourceQuota does. The
	// result follows later.
	Enforcement *Enforcement
}

// PhaseStep is one phase of a request.
type PhaseStep struct {
	// Attributes are the request's, with its objects in the form in which the server holds them.
	Attributes admission.Attributes
	// Shown are the attributes as plugins see them, with the objects in the types of their API
	// version. They are set when the mutating phase begins, if an observer wants objects. Read the
	// objects before PhaseBegins returns: plugins change them.
	Shown admission.Attributes
	// Phase is Mutating or Validating.
	Phase Phase
	// Rounds is how often the plugins ran: 2 if the mutating phase was run once more.
	Rounds int
	// Duration is the time that all rounds took, including conversions.
	Duration time.Duration
	// Err is the error that ended the phase, nil if the request was admitted.
	Err error
}

// Observe is an Observer made of functions, any of which may be nil.
type Observe struct {
	Step  func(ctx context.Context, step Step)
	Phase func(ctx context.Context, phase PhaseStep)
	// Want is what Wants returns.
	Want Wants
}

var _ Observer = Observe{}

// Wants returns o.Want.
func (o Observe) Wants() Wants { return o.Want }

// PhaseBegins returns ctx.
func (o Observe) PhaseBegins(ctx context.Context, _ PhaseStep) context.Context { return ctx }

// StepBegins returns ctx.
func (o Observe) StepBegins(ctx context.Context, _ Step) context.Context { return ctx }

// StepDone calls o.Step.
func (o Observe) StepDone(ctx context.Context, step Step) {
	if o.Step != nil {
		o.Step(ctx, step)
	}
}

// PhaseDone calls o.Phase.
func (o Observe) PhaseDone(ctx context.Context, phase PhaseStep) {
	if o.Phase != nil {
		o.Phase(ctx, phase)
	}
}
