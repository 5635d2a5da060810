package chain

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"
)

// An Observer is told what the chain does with each request. Metrics, traces and audit are
// observers; a plugin holds no code for them.
//
// An observer is called in the request's goroutine, after what it is told of, and concurrently for
// concurrent requests. It must not change the objects it can reach through the attributes.
type Observer interface {
	// PluginDone is called after each call of a plugin. A plugin that
	// doesn't handle the operation is not called, and nothing is said of it.
	PluginDone(ctx context.Context, step PluginStep)

	// PhaseDone is called after each phase, whatever its end.
	PhaseDone(ctx context.Context, phase PhaseStep)
}

// A ChangeObserver is an Observer that may ask for PluginStep.Changes. It is asked once, when the
// chain is built. Knowing what a plugin changed takes a comparison of the object with what it was
// for each plugin that looks at it, which is not spent where no observer wants it.
type ChangeObserver interface {
	Observer
	// ObservesChanges tells whether the observer reads PluginStep.Changes.
	ObservesChanges() bool
}

// A LateObserver is an Observer that is also told what plugins left to others to decide.
type LateObserver interface {
	Observer

	// PluginLate is called when it is decided, after the phase and before the request is answered:
	// the step is that of PluginDone, with the error and the calls there are now. Its Duration is
	// 0.
	PluginLate(ctx context.Context, step PluginStep)
}

// A ContextObserver is an Observer that is also asked before phases and plugins, and gives what
// they do a context, as that of a span of a trace. It returns the one that it is given where it has
// nothing to add. PluginDone and PhaseDone are called with the context that it returned for them.
type ContextObserver interface {
	Observer
	// PhaseBegins is called before each phase, of which Attributes and Phase are known.
	PhaseBegins(ctx context.Context, phase PhaseStep) context.Context
	// PluginBegins is called before each call of a plugin, of which Attributes, Plugin, Phase,
	// Round and Start are known.
	PluginBegins(ctx context.Context, step PluginStep) context.Context
}

// PluginStep is one call of a plugin.
type PluginStep struct {
	// Attributes are the request's, with its objects in the form the server holds them in. In the
	// mutating phase these don't have yet what plugins have changed.
	Attributes admission.Attributes
	// Plugin is the plugin's name.
	Plugin string
	// Phase is Mutating or Validating.
	Phase Phases
	// Round is 0, or 1 in the re-run of the mutating phase.
	Round int
	// Start is when the plugin was called. What is told by LateObserver has none.
	Start time.Time
	// Duration is what the call took, with the conversion of the object, without the comparison.
	Duration time.Duration
	// Err is nil where the plugin admitted the request, and the refusal otherwise.
	Err error
	// Changes holds what the plugin changed in the object, values of Secrets included. It is nil if
	// the plugin changed nothing, if no observer asked for changes, and in the validating phase.
	// Changes.Patch takes longer than all else here: call it after the request has been answered.
	Changes *Changes
	// Calls are the steps within this one, in order: each webhook, policy and so on. They are empty
	// where no observer asked for them, see CallObserver.
	Calls []Call
}

// PhaseStep is one whole phase of a request.
type PhaseStep struct {
	// Attributes are the request's, with its objects in the form the server holds them in.
	Attributes admission.Attributes
	// Phase is Mutating or Validating.
	Phase Phases
	// Rounds is how often the plugins ran: 2 where the mutating phase was run once more.
	Rounds int
	// Duration is that of all rounds together, conversions included.
	Duration time.Duration
	// Err is nil where the request was admitted, and the refusal that ended it otherwise.
	Err error
}

// ObserverFuncs is an Observer made of functions, any of which may be nil.
type ObserverFuncs struct {
	Plugin func(ctx context.Context, step PluginStep)
	Phase  func(ctx context.Context, phase PhaseStep)
	Late   func(ctx context.Context, step PluginStep)
	// Changes asks for PluginStep.Changes.
	Changes bool
	// Calls asks for PluginStep.Calls.
	Calls bool
}

var (
	_ ChangeObserver = ObserverFuncs{}
	_ CallObserver   = ObserverFuncs{}
	_ LateObserver   = ObserverFuncs{}
)

// PluginDone calls Plugin.
func (f ObserverFuncs) PluginDone(ctx context.Context, step PluginStep) {
	if f.Plugin != nil {
		f.Plugin(ctx, step)
	}
}

// PhaseDone calls Phase.
func (f ObserverFuncs) PhaseDone(ctx context.Context, phase PhaseStep) {
	if f.Phase != nil {
		f.Phase(ctx, phase)
	}
}

// PluginLate calls Late.
func (f ObserverFuncs) PluginLate(ctx context.Context, step PluginStep) {
	if f.Late != nil {
		f.Late(ctx, step)
	}
}

// ObservesChanges returns Changes.
func (f ObserverFuncs) ObservesChanges() bool { return f.Changes }

// ObservesCalls returns Calls.
func (f ObserverFuncs) ObservesCalls() bool { return f.Calls }
