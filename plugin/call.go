package plugin

import (
	"time"

	"k8s.io/apiserver/pkg/admission"
)

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

// Calls collects the calls of a plugin, in the order in which observers read them. Only the
// request's goroutine uses it.
type Calls struct{ list []Call }

// Add adds a call.
func (c *Calls) Add(call Call) { c.list = append(c.list, call) }

// CallsOf returns the Calls in which a plugin reports what it asks. a is the attributes that the
// chain called the plugin with. CallsOf returns nil if no observer wants calls, and then the plugin
// should spend nothing on them:
//
//	if calls := plugin.CallsOf(a); calls != nil {
//		calls.Add(plugin.Call{Kind: plugin.Policy, Name: policy, Verdict: plugin.Admitted, Duration: …})
//	}
func CallsOf(a admission.Attributes) *Calls {
	if s := scopeOf(a); s != nil {
		return s.calls
	}
	return nil
}
