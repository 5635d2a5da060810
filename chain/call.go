package chain

import (
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
	// Kind is what it is: Webhook, Policy, Quota, LimitRange.
	Kind CallKind
	// Name is its name. Configuration is that of the object that a webhook is in.
	Name, Configuration string
	// Binding and Param say with which of these a policy was evaluated. Param is namespace/name, or
	// name; empty for none.
	Binding, Param string

	Verdict Verdict
	// Ignored says that it failed, and that its failurePolicy lets the request pass.
	Ignored bool
	// Why is the reason in words, where the verdict isn't Admitted.
	Why string
	// Duration is what it took; 0 where it was skipped.
	Duration time.Duration
	// Patch is the change that it made, as JSON (RFC 6902); nil for none.
	Patch []byte
}

// CallKind is the kind of a Call.
type CallKind string

// The kinds.
const (
	Webhook    CallKind = "Webhook"
	Policy     CallKind = "Policy"
	Quota      CallKind = "Quota"
	LimitRange CallKind = "LimitRange"
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

// newCalls are those of the next plugin.
func (c *Chain) newCalls() *Calls {
	if !c.recording {
		return nil
	}
	return &Calls{}
}

// taken are all that have been written down.
func (c *Calls) taken() []Call {
	if c == nil {
		return nil
	}
	return c.list
}
