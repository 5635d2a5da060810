// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"sync"

	"k8s.io/apiserver/pkg/admission"
)

// Enforcement is a decision that a plugin left to others. ResourceQuota leaves its own to the
// storage, which charges the quota in the transaction that stores the object.
type Enforcement struct {
	mu    sync.Mutex
	tells []func(err error, calls []Call)
}

// Enforce returns the Enforcement of the plugin's current call, whose attributes a is. Observers
// find it in the Step. It returns nil if a isn't from a chain.
func Enforce(a admission.Attributes) *Enforcement {
	s := scopeOf(a)
	if s == nil {
		return nil
	}
	if s.enforcement == nil {
		s.enforcement = &Enforcement{}
	}
	return s.enforcement
}

// Then has tell called with the result, before the request is answered. An observer calls Then in
// StepDone.
func (e *Enforcement) Then(tell func(err error, calls []Call)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tells = append(e.tells, tell)
}

// Report reports the result: the error with which the request is refused, nil if it is admitted,
// and the calls that led to it.
func (e *Enforcement) Report(err error, calls ...Call) {
	e.mu.Lock()
	tells := e.tells
	e.mu.Unlock()
	for _, tell := range tells {
		tell(err, calls)
	}
}
