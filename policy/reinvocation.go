package policy

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// rounds is what the second round of the mutating phase has to know of the first. It travels with
// the request, in its ReinvocationContext.
//
// Source: policyReinvokeContext in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/reinvocationcontext.go.
type rounds struct {
	// called are the policies with reinvocationPolicy IfNeeded that were evaluated while nothing
	// changed.
	called sets.Set[turnKey]
	// again are those that are to be evaluated in the second round.
	again sets.Set[turnKey]
	// left is the object as the first round left it. It is kept where somebody will want to know.
	left runtime.Object
}

// turnKey tells an evaluation from all others of a request, in either round.
type turnKey struct {
	policy, binding string
	static          bool
	params          string
}

func (t *turn) key() turnKey {
	k := turnKey{policy: t.policy.name, binding: t.binding.name, static: t.policy.static}
	if t.params != nil {
		if params, ok := t.params.Object().(metav1.Object); ok {
			k.params = params.GetNamespace() + "/" + params.GetName()
		}
	}
	return k
}

// add takes down that a policy was evaluated.
func (r *rounds) add(k turnKey) {
	if r.called == nil {
		r.called = sets.New[turnKey]()
	}
	r.called.Insert(k)
}

// changed takes down that policies have changed the object. As upstream, all are to be evaluated
// again then, also those that came after the change.
func (r *rounds) changed() {
	r.again = r.again.Union(r.called)
	r.called = nil
}

// leave ends the first round.
func (r *rounds) leave(object runtime.Object) {
	if len(r.called) > 0 && object != nil {
		r.left = object.DeepCopyObject()
	}
}

// enter begins the second round, after the other plugins have run once more, and tells whether
// there is anything to do. A policy that wasn't evaluated in the first round isn't in the second;
// nil is of a first round that had none.
func (r *rounds) enter(object runtime.Object) bool {
	if r == nil {
		return false
	}
	if len(r.called) > 0 && !apiequality.Semantic.DeepEqual(r.left, object) {
		r.changed()
	}
	return len(r.again) > 0
}
