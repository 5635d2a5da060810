// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/matching"
)

// rounds records which evaluations to repeat in the second round. As upstream, a change repeats all
// evaluations of the first round, including those that came after the change.
type rounds = matching.Rounds[turnKey]

// turnKey identifies a turn in both rounds of a request.
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
