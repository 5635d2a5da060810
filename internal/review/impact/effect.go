// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"crypto/sha256"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// An effect is the gravest difference that the candidate makes for a result.
type effect int

const (
	refuses effect = iota
	admits
	changes
	warns
	effects // the number of them
)

// effect returns the effect of a result that differs.
func (r *Result) effect() effect {
	before := r.Before
	if before == "" {
		before = r.Recorded
	}
	switch was, is := isRefusal(before), isRefusal(r.Verdict); {
	case is && !was:
		return refuses
	case was && !is:
		return admits
	case len(r.Changes) > 0:
		return changes
	}
	return warns
}

// refusesUpdate reports whether the candidate refuses the update of an object, and nothing does without it.
func (r *Result) refusesUpdate() bool {
	return r.Operations != nil && isRefusal(r.Operations.Update) &&
		(r.OperationsBefore == nil || !isRefusal(r.OperationsBefore.Update))
}

// isRefusal reports whether a verdict refuses a request. A failure counts as a refusal.
func isRefusal(v v1alpha1.Verdict) bool { return v == v1alpha1.Refused || v == v1alpha1.Failed }

// Outcome returns refused, admitted, changed or warned for a result that differs, and otherwise same or not judged.
func (r *Result) Outcome() string {
	switch {
	case r.Unjudged != "":
		return "not judged"
	case r.Differs:
		return words[r.effect()]
	}
	return "same"
}

// PolicyNames returns the policies that make a result differ, as Groups names them.
func (r *Result) PolicyNames() []string {
	var names []string
	for _, p := range r.policies() {
		names = append(names, p.describe())
	}
	return names
}

// policies returns the policies of a difference: one without a name if no plugin makes it, but the API itself.
func (r *Result) policies() []Policy {
	if len(r.Policies) == 0 {
		return []Policy{{}}
	}
	return r.Policies
}

// Judgement returns the decision that shows why a result differs: on the request, or on one of its pods. It is nil
// if the report has none.
func (r *Result) Judgement() *v1alpha1.Decision {
	if r.Pods != nil && (r.Decision == nil || r.Decision.Verdict == v1alpha1.Admitted) {
		return r.Pods.Decision
	}
	return r.Decision
}

// A key identifies a difference in the reports of different days: it is made of the object, the policy and the
// effect, and in a replay also of the user and the operation.
type key [16]byte

func keyOf(kind string, r *Result, p *Policy) key {
	gv, _ := schema.ParseGroupVersion(r.Object.APIVersion)
	parts := []string{string('0' + rune(r.effect())), gv.Group, r.Object.Kind, r.Object.Namespace, r.Object.Name, p.Plugin,
		p.Kind, p.Name}
	if kind == Replay {
		parts = append(parts, r.Request.User.Username, r.Request.Operation, r.Request.Subresource)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return key(sum[:len(key{})])
}
