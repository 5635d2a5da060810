// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Rounds records, during the first round of the mutating phase, which webhooks or policies with
// reinvocationPolicy IfNeeded are to be called in the second. Each has a key. A Rounds belongs to
// the request and is kept in its ReinvocationContext.
//
// KEP-492, "Mutating admission re-running", says why.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go#webhookReinvokeContext 3b295756
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/reinvocationcontext.go#policyReinvokeContext 6e3b16f1
type Rounds[K comparable] struct {
	// called are the keys of the calls since the object last changed.
	called sets.Set[K]
	// pending are the keys of the calls to repeat: the object has changed since.
	pending sets.Set[K]
	// lastSeen is the object at the end of the first round, kept if called isn't empty.
	lastSeen runtime.Object
}

// AddCalled records a call.
func (r *Rounds[K]) AddCalled(key K) {
	if r.called == nil {
		r.called = sets.New[K]()
	}
	r.called.Insert(key)
}

// ObjectChanged records that the object has changed since the calls so far.
func (r *Rounds[K]) ObjectChanged() {
	r.pending = r.pending.Union(r.called)
	r.called = nil
}

// EndFirst ends the first round.
func (r *Rounds[K]) EndFirst(object runtime.Object) {
	if len(r.called) > 0 && object != nil {
		r.lastSeen = object.DeepCopyObject()
	}
}

// BeginSecond begins the second round, after the other plugins have run once more. It reports
// whether there are calls to repeat. A nil Rounds, of a first round without calls, has none.
func (r *Rounds[K]) BeginSecond(object runtime.Object) bool {
	if r == nil {
		return false
	}
	if len(r.called) > 0 && !apiequality.Semantic.DeepEqual(r.lastSeen, object) {
		r.ObjectChanged()
	}
	return len(r.pending) > 0
}

// IsPending reports whether to repeat a call in the second round.
func (r *Rounds[K]) IsPending(key K) bool { return r.pending.Has(key) }
