// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/plugin"
)

// report sends a plugin.Call about a policy to the chain's observers. b and params may be nil. fill
// fills in the result; it is not called if there are no observers.
func (r *request) report(policy string, b *binding, params *expression.Params, fill func(*plugin.Call)) {
	if r.calls == nil {
		return
	}
	call := plugin.Call{Kind: plugin.Policy, Name: policy}
	if b != nil {
		call.Binding = b.name
	}
	if params != nil {
		call.Secret = params.Kind().GroupKind() == schema.GroupKind{Kind: "Secret"}
		if object, err := meta.Accessor(params.Object()); err == nil {
			call.Param = object.GetName()
			if namespace := object.GetNamespace(); namespace != "" {
				call.Param = namespace + "/" + call.Param
			}
		}
	}
	fill(&call)
	r.calls.Add(call)
}

// reportMismatch reports that a policy has a rule for the request but doesn't match it with the
// binding, or with any binding if b is nil.
func (r *request) reportMismatch(policy string, b *binding, why matching.Mismatch) {
	r.report(policy, b, nil, func(call *plugin.Call) { call.Verdict, call.Why = plugin.Skipped, string(why) })
}

// reportFailure reports an error in the configuration of a policy or a binding.
func (r *request) reportFailure(policy string, b *binding, ignored bool, err error) {
	r.report(policy, b, nil, func(call *plugin.Call) {
		call.Verdict, call.Ignored, call.Why = plugin.Failed, ignored, configError(b, err).Error()
		var missing *missingParams
		if errors.As(err, &missing) {
			call.Why += ": " + missing.describe()
		}
	})
}

// conditionsFailed is the prefix of an error of match conditions.
const conditionsFailed = "match conditions: "

// reportJudgement reports the result of a validating policy: each violation and error as a call of its own, and
// otherwise one call. start and took are zero if the result was reused from another binding or params.
func (r *request) reportJudgement(policy string, in *invocation, j *judgement, start time.Time, took time.Duration) {
	admitted := true
	for i := range j.decisions {
		d := &j.decisions[i]
		if !d.erred && !d.denied {
			continue
		}
		r.report(policy, in.binding, in.params, func(call *plugin.Call) {
			if admitted { // the others were evaluated with the first one
				call.Start, call.Duration = start, took
			}
			call.Verdict, call.Why = plugin.Refused, d.message
			if d.erred {
				call.Verdict, call.Ignored = plugin.Failed, !d.denied
			}
			if d.inCondition {
				call.Why = conditionsFailed + call.Why
			}
			call.Expression = strings.TrimSpace(d.expression)
			if d.condition != nil {
				call.Reads = d.condition.Reads()
			}
			in.binding.applyActions(call)
		})
		admitted = false
	}
	if !admitted {
		return
	}
	r.report(policy, in.binding, in.params, func(call *plugin.Call) {
		call.Verdict, call.Start, call.Duration = plugin.Admitted, start, took
		if j.skipped != "" {
			call.Verdict, call.Why = plugin.Skipped, fmt.Sprintf("match condition %q is false", j.skipped)
			return
		}
		for i := range j.annotations {
			if err := j.annotations[i].err; err != "" {
				call.Verdict, call.Why = plugin.Failed, err
				return
			}
		}
	})
}

// applyActions changes the call of a violation that doesn't refuse the request, because the
// binding's validationActions don't include Deny.
func (b *binding) applyActions(call *plugin.Call) {
	if call.Ignored || slices.Contains(b.validationActions, admissionregistrationv1.Deny) {
		return
	}
	if slices.Contains(b.validationActions, admissionregistrationv1.Warn) {
		call.Warnings = []string{call.Why}
	}
	call.Ignored = call.Verdict == plugin.Failed
	if call.Verdict == plugin.Refused {
		call.Verdict = plugin.Admitted
	}
	call.Why += fmt.Sprintf(" (not refused: validationActions of the binding are %v)", b.validationActions)
}

// reportMutations reports the result of a mutating policy. before is the object before the policy,
// nil if the request has none.
func (p *pass) reportMutations(t *turn, o *outcome, start time.Time, took time.Duration, before runtime.Object) {
	p.report(t.policy.name, t.binding, t.params, func(call *plugin.Call) {
		call.Verdict, call.Start, call.Duration = plugin.Admitted, start, took
		switch {
		case o.skipped != "":
			call.Verdict, call.Why = plugin.Skipped, fmt.Sprintf("match condition %q is false", o.skipped)
			return
		case o.failed != nil:
			call.Verdict, call.Why = plugin.Failed, o.failed.Error()
			call.Ignored = t.policy.ignoresFailures() && !o.mustRefuse
			if o.inCondition {
				call.Why = conditionsFailed + call.Why
			}
		}
		if before == nil {
			return
		}
		if o.isChanged {
			call.Changes = p.changesSince(before)
		}
		dropped := p.droppedFields(t.version.Resource, before, p.object.Object())
		if call.Verdict == plugin.Admitted && len(dropped) > 0 {
			call.Why = fmt.Sprintf("its mutations set %s, which objects of this kind don't have",
				strings.Join(dropped, ", "))
		}
	})
}

// changesSince returns what changed in the object, in the version of the request. It returns nil if
// the object can't be converted to that, which refuses the request at the end of the round.
func (p *pass) changesSince(before runtime.Object) *jsondiff.Changes {
	was, err := matching.ConvertOver(p.GetObject(), before, p.GetKind(), p.Interfaces)
	if err != nil {
		return nil
	}
	now, err := matching.ConvertOver(p.GetObject(), p.object.Object(), p.GetKind(), p.Interfaces)
	if err != nil {
		return nil
	}
	return jsondiff.ChangesBetween(was, now)
}
