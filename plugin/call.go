// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/jsondiff"
)

// Call is a step within a plugin's step: what one webhook, policy, quota or other thing that users
// configure did with the request.
type Call struct {
	Kind CallKind
	// Name is the name of the webhook, policy and so on. Configuration is the name of the object that
	// has the webhook.
	Name, Configuration string
	// Binding and Param are those with which a policy was evaluated. Param is "namespace/name" or
	// "name"; it is empty if there is none.
	Binding, Param string
	// Expression is the policy's expression that was violated or could not be evaluated.
	Expression string
	// Reads are the fields that a violated expression reads, such as object.spec.containers[*].image.
	Reads []string
	// Backend is the webhook's address: its URL, or the service with port and path.
	Backend string

	Verdict Verdict
	// Code is the HTTP status of a refusal or failure, 0 if there is none.
	Code int32
	// Ignored reports whether the call failed and its failurePolicy let the request pass.
	Ignored bool
	// Why is the reason in words if the verdict isn't Admitted. For a quota or LimitRange it is also
	// the result of an admission.
	Why string
	// Start is the time at which the call began, Duration the time that it took. Both are zero if the
	// call was skipped or its result was known before.
	Start    time.Time
	Duration time.Duration
	// Changes holds what the call changed in the object, apart from the defaults that the server set
	// afterwards; see ChangesBetween. It is nil if the call changed nothing.
	Changes *jsondiff.Changes
	// Warnings are the warnings for the client.
	Warnings []string
	// Secret reports whether the call read a Secret, such as a policy whose params are one. Why,
	// Warnings, Changes and the step's changes may contain values of the Secret, so an observer must
	// not show them.
	Secret bool
}

// ChangesBetween returns what a call changed in the request's object, for Call.Changes; nil if
// nothing. Both states have the type of the object that the plugin sees. ChangesBetween copies them,
// so a plugin should call it only after a call that changed the object.
func ChangesBetween(before, after runtime.Object) *jsondiff.Changes {
	return jsondiff.ChangesBetween(before, after)
}

// CallKind is the kind of a Call.
type CallKind string

const (
	Webhook    CallKind = "Webhook"
	Policy     CallKind = "Policy"
	Quota      CallKind = "Quota"
	LimitRange CallKind = "LimitRange"
	// Backend is a backend that a plugin's own configuration names. The Call has the plugin's name.
	Backend CallKind = "Backend"
	// Trial is a result of a plugin that isn't enforced. The Call has the plugin's name.
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
