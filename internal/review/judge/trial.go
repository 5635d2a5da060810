// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
)

// A Trial judges requests by a candidate, and by what the candidate is compared with.
type Trial struct {
	Candidate *Judge
	// Before is what the candidate is compared with; nil for nothing, which admits all requests and changes
	// none.
	Before *Judge
	// OnlyRefuses says that Candidate and Before change objects in the same way. Then Before isn't asked about
	// requests that were admitted and that the candidate admits without a warning.
	OnlyRefuses bool
}

// An Effect is what a candidate would change for a request.
type Effect string

const (
	// NoEffect means that the request would end as before.
	NoEffect Effect = ""
	// NewlyRefused means that the request would be refused, or fail, and was admitted before.
	NewlyRefused Effect = "refused"
	// NewlyAdmitted means that the request would be admitted, and was refused before.
	NewlyAdmitted Effect = "admitted"
	// Changes means that the object would be changed in another way.
	Changes Effect = "changed"
	// Warns means that the client would get another warning.
	Warns Effect = "warned"
)

// The reasons why a Result has no effect to tell, besides those of Verdict.Unjudged.
const (
	// StateChanged means that the request was admitted when it was made, and that it would be refused even without the
	// candidate: the state that judges isn't the state of that time.
	StateChanged = "state-changed"
	// RefusedElsewhere means that the request was refused when it was made, and that nothing that is known
	// here would have refused it.
	RefusedElsewhere = "refused-elsewhere"
)

// A Result says what a candidate would change for a request.
type Result struct {
	Request   *Request
	Candidate *Verdict
	// Before is nil if it was not asked.
	Before *Verdict
	Effect Effect
	// Unjudged is why the effect isn't known, a stable word; empty if it is.
	Unjudged string
	// Why explains Unjudged for this request, if there is more to say.
	Why string
}

// Judge says what the candidate would change for a request. recorded is how the request ended when it was
// made; empty if that isn't known, or if nothing but the two sides is to be compared.
func (t *Trial) Judge(ctx context.Context, r *Request, recorded v1alpha1.Verdict) Result {
	result := Result{Request: r, Candidate: t.Candidate.Judge(ctx, r)}
	if result.setUnjudged(result.Candidate) {
		return result
	}
	admits := result.Candidate.Decision.Verdict == v1alpha1.Admitted
	if t.Before != nil {
		if t.OnlyRefuses && admits && recorded == v1alpha1.Admitted && len(result.Candidate.Warnings) == 0 {
			return result
		}
		result.Before = t.Before.Judge(ctx, r)
		if result.setUnjudged(result.Before) {
			return result
		}
	}
	admitted := result.Before == nil || result.Before.Decision.Verdict == v1alpha1.Admitted
	switch was := recorded == v1alpha1.Admitted; {
	case recorded != "" && was && !admitted:
		result.Unjudged = StateChanged
	case recorded != "" && !was && admitted && admits:
		result.Unjudged = RefusedElsewhere
	case recorded != "" && !was && admitted: // it is refused in any case
	case admitted && !admits:
		result.Effect = NewlyRefused
	case !admitted && admits:
		result.Effect = NewlyAdmitted
	case admits && why.DifferInPatch(result.Candidate.Decision, result.Before.decision()):
		result.Effect = Changes
	case !slices.Equal(sorted(result.Candidate.Warnings), sorted(result.Before.warnings())):
		result.Effect = Warns
	}
	return result
}

// setUnjudged reports whether the request could not be judged by a side, and says why.
func (r *Result) setUnjudged(v *Verdict) bool {
	if v.Err != nil {
		r.Unjudged, r.Why = v.Unjudged, v.Err.Error()
	}
	return v.Err != nil
}

func (v *Verdict) decision() *v1alpha1.Decision {
	if v == nil {
		return nil
	}
	return v.Decision
}

func (v *Verdict) warnings() []string {
	if v == nil {
		return nil
	}
	return v.Warnings
}

func sorted(texts []string) []string { return slices.Sorted(slices.Values(texts)) }
