package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/matching"
)

// rounds are those of policies. As upstream, all are to be evaluated again where one has changed
// the object, also those that came after the change.
type rounds = matching.Rounds[turnKey]

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
