package webhook

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// rounds is what the second round of the mutating phase has to know of the first. It travels with
// the request, in its ReinvocationContext.
//
// Source: KEP-492, "Mutating admission re-running", and webhookReinvokeContext in
// k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.
type rounds struct {
	// candidates are those of the first round: the second works with the same snapshot.
	candidates []candidate
	// called are the webhooks with reinvocationPolicy IfNeeded that were called, by uid, and have
	// the object as it was since then.
	called sets.Set[string]
	// again are those that are to be called in the second round: the object has changed since they
	// saw it.
	again sets.Set[string]
	// left is the object as the first round left it. It is kept where somebody will want to know.
	left runtime.Object
}

// changed takes down that the object is not any more what those called so far know.
func (r *rounds) changed() {
	r.again = r.again.Union(r.called)
	r.called = nil
}

// add takes down that a webhook was called.
func (r *rounds) add(h *hook) {
	if !h.reinvocable {
		return
	}
	if r.called == nil {
		r.called = sets.New[string]()
	}
	r.called.Insert(h.uid)
}

// leave ends the first round.
func (r *rounds) leave(object runtime.Object) {
	if len(r.called) > 0 && object != nil {
		r.left = object.DeepCopyObject()
	}
}

// enter begins the second round, after the compiled-in plugins have run once more.
func (r *rounds) enter(object runtime.Object) {
	if len(r.called) > 0 && !apiequality.Semantic.DeepEqual(r.left, object) {
		r.changed()
	}
}
