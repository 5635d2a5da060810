package matching

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Rounds are what the second round of the mutating phase has to know of the first about those with
// reinvocationPolicy IfNeeded, each known by its key. They travel with the request, in its
// ReinvocationContext.
//
// Source: KEP-492, "Mutating admission re-running", webhookReinvokeContext in
// k8s.io/apiserver/pkg/admission/plugin/webhook/mutating and policyReinvokeContext in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating.
type Rounds[K comparable] struct {
	// called have the object as it was since they were called.
	called sets.Set[K]
	// again are to be called in the second round: the object has changed since they saw it.
	again sets.Set[K]
	// left is the object as the first round left it. It is kept where somebody will want to know.
	left runtime.Object
}

// Add takes down that one was called.
func (r *Rounds[K]) Add(key K) {
	if r.called == nil {
		r.called = sets.New[K]()
	}
	r.called.Insert(key)
}

// Changed takes down that the object is not any more what those called so far know.
func (r *Rounds[K]) Changed() {
	r.again = r.again.Union(r.called)
	r.called = nil
}

// Leave ends the first round.
func (r *Rounds[K]) Leave(object runtime.Object) {
	if len(r.called) > 0 && object != nil {
		r.left = object.DeepCopyObject()
	}
}

// Enter begins the second round, after the other plugins have run once more, and tells whether
// there is anything to do. Who wasn't called in the first round isn't in the second; nil is of a
// first round that had nobody.
func (r *Rounds[K]) Enter(object runtime.Object) bool {
	if r == nil {
		return false
	}
	if len(r.called) > 0 && !apiequality.Semantic.DeepEqual(r.left, object) {
		r.Changed()
	}
	return len(r.again) > 0
}

// Again tells whether one is to be called in the second round.
func (r *Rounds[K]) Again(key K) bool { return r.again.Has(key) }
