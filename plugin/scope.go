// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import "k8s.io/apiserver/pkg/admission"

// Scope holds what a chain keeps for the plugins that it calls for one phase of a request: their
// calls, their Enforcement, and what they share. The chain embeds it in the attributes that it
// passes to plugins. Only the request's goroutine uses it.
type Scope struct {
	calls       *Calls
	enforcement *Enforcement
	shared      []any
	sharing     bool
}

// NewScope returns the scope of a phase. It keeps calls only if an observer wants them.
func NewScope(calls bool) Scope {
	if !calls {
		return Scope{}
	}
	return Scope{calls: &Calls{}}
}

func (s *Scope) scope() *Scope { return s }

// scopeOf returns the scope of attributes that a chain made, and nil for others.
func scopeOf(a admission.Attributes) *Scope {
	if has, ok := a.(interface{ scope() *Scope }); ok {
		return has.scope()
	}
	return nil
}

// Begin starts the call of a plugin.
func (s *Scope) Begin() {
	s.enforcement, s.sharing = nil, false
	if s.calls != nil {
		s.calls.list = nil
	}
}

// End ends the call of a plugin and completes its step. If the plugin may have changed the object
// without minding what is shared, End drops what is shared.
func (s *Scope) End(step *Step, mayHaveChanged bool) {
	if mayHaveChanged && !s.sharing {
		s.shared = nil
	}
	step.Enforcement = s.enforcement
	if s.calls != nil {
		step.Calls = s.calls.list
	}
}

// Forget drops what is shared.
func (s *Scope) Forget() { s.shared = nil }

// Shared returns the T that the plugins of a phase of a request share, such as the object in another
// version: the next plugin needn't make what one has made. A phase begins with a zero T. Attributes
// that aren't from a chain have nothing to share, so the caller gets a T of its own.
//
// A plugin that calls Shared must update the T when it changes the object. The chain drops all that
// is shared after any other plugin that may have changed the object.
func Shared[T any](a admission.Attributes) *T {
	s := scopeOf(a)
	if s == nil {
		return new(T)
	}
	s.sharing = true
	for _, value := range s.shared {
		if value, ok := value.(*T); ok {
			return value
		}
	}
	value := new(T)
	s.shared = append(s.shared, value)
	return value
}
