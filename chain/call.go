package chain

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"
)

// A CallObserver is an Observer that may ask for PluginStep.Calls. It is asked once, when the chain
// is built. Where no observer wants them nothing is written down.
type CallObserver interface {
	Observer
	// ObservesCalls tells whether the observer reads PluginStep.Calls.
	ObservesCalls() bool
}

// A Call is a step within a plugin's step: one webhook, policy or other thing that users configure,
// and what it did with the request.
type Call struct {
	// Kind is what it is: Webhook, Policy, Quota, LimitRange, Backend, Trial.
	Kind CallKind
	// Name is its name. Configuration is that of the object that a webhook is in.
	Name, Configuration string
	// Binding and Param say with which of these a policy was evaluated. Param is namespace/name, or
	// name; empty for none.
	Binding, Param string
	// Expression is the one of a policy that was violated, or could not be evaluated.
	Expression string
	// Backend is where a webhook is: its URL, or service, port and path.
	Backend string

	Verdict Verdict
	// Code is the HTTP status of a refusal or failure, where there is one.
	Code int32
	// Ignored says that it failed, and that its failurePolicy lets the request pass.
	Ignored bool
	// Why is the reason in words, where the verdict isn't Admitted; of a quota and a LimitRange
	// also what it came to.
	Why string
	// Start is when it began, and Duration what it took; both are zero where it was skipped, or
	// where what it came to was known from before.
	Start    time.Time
	Duration time.Duration
	// Patch is the change that it made, as JSON (RFC 6902); nil for none.
	Patch []byte
	// Warnings are what it has the client warned of.
	Warnings []string
	// Secret says that it reads a Secret, as a policy whose params are one. Why, Warnings, Patch
	// and the step's changes may have values of the Secret in them. An observer must not show
	// these.
	Secret bool
}

// CallKind is the kind of a Call.
type CallKind string

// The kinds.
const (
	Webhook    CallKind = "Webhook"
	Policy     CallKind = "Policy"
	Quota      CallKind = "Quota"
	LimitRange CallKind = "LimitRange"
	// Backend is what a plugin asks by its own configuration. It is called what the plugin is.
	Backend CallKind = "Backend"
	// Trial is what a plugin would do that isn't enforced. It is called what the plugin is.
	Trial CallKind = "Trial"
)

// Verdict is what a Call came to.
type Verdict string

// The verdicts. Skipped is what has a rule for the request but wasn't asked, as by a selector or a
// match condition. What has no rule for it is not a call.
const (
	Admitted Verdict = "Admitted"
	Refused  Verdict = "Refused"
	Failed   Verdict = "Failed"
	Skipped  Verdict = "Skipped"
)

// Calls are written down by a plugin while it is called, in the order in which observers will read
// them. They are for the request's goroutine.
type Calls struct{ list []Call }

// Add writes one down.
func (c *Calls) Add(call Call) { c.list = append(c.list, call) }

// CallsOf is where a plugin writes down its calls, given the attributes that the chain called it
// with; nil where nobody wants to know, and then a plugin is to spend nothing on it:
//
//	if calls := chain.CallsOf(a); calls != nil {
//		calls.Add(chain.Call{Kind: chain.Policy, Name: policy, Verdict: chain.Admitted, Duration: …})
//	}
func CallsOf(a admission.Attributes) *Calls {
	if v, ok := a.(*versioned); ok {
		return v.calls
	}
	return nil
}

// Later is for a plugin that leaves to others what it is there to decide, as ResourceQuota does to
// storage. What it returns is to be called once, when that is decided: with the error that the
// request is refused with, nil for none, and with the calls that led to it, where somebody wants
// them (see CallsOf). Observers are told of both as the plugin's own, see LateObserver. It is nil
// where there is none to tell.
func Later(ctx context.Context, a admission.Attributes) func(err error, calls ...Call) {
	v, ok := a.(*versioned)
	if !ok || len(v.late) == 0 {
		return nil
	}
	step := PluginStep{Attributes: v.Attributes, Plugin: v.plugin, Phase: v.phase, Round: v.round}
	observers := v.late
	return func(err error, calls ...Call) {
		step.Err, step.Calls = err, calls
		for _, o := range observers {
			o.PluginLate(ctx, step)
		}
	}
}

// newCalls are those of a phase of a request, nil where no observer wants them.
func (c *Chain) newCalls() *Calls {
	if !c.recording {
		return nil
	}
	return &Calls{}
}

// taken are all that the plugin has written down.
func (c *Calls) taken() []Call {
	if c == nil {
		return nil
	}
	return c.list
}
