package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/plugin"
)

// report tells the chain's observers of what a policy, with a binding and params that may be nil,
// did. done says what; it is not called where nobody wants to know.
func (r *request) report(policy string, b *binding, params *expression.Params, done func(*plugin.Call)) {
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
	done(&call)
	r.calls.Add(call)
}

// reportMismatch tells them of a policy that has a rule for the request, but isn't evaluated with
// the binding, or, where that is nil, with any.
func (r *request) reportMismatch(policy string, b *binding, why matching.Mismatch) {
	r.report(policy, b, nil, func(call *plugin.Call) { call.Verdict, call.Why = plugin.Skipped, string(why) })
}

// reportFailure tells them of a policy, or a binding, whose configuration is wrong.
func (r *request) reportFailure(policy string, b *binding, ignored bool, err error) {
	r.report(policy, b, nil, func(call *plugin.Call) {
		call.Verdict, call.Ignored, call.Why = plugin.Failed, ignored, configured(b, err).Error()
		var missing *missingParams
		if errors.As(err, &missing) {
			call.Why += ": " + missing.which()
		}
	})
}

// conditionsFailed tells an error of match conditions from one of what the policy does.
const conditionsFailed = "match conditions: "

// reportJudgement tells them what a policy came to, of which the first violation, or error, is the
// reason. start and took are zero for what was remembered.
func (r *request) reportJudgement(policy string, in *invocation, j *judgement, start time.Time, took time.Duration) {
	r.report(policy, in.binding, in.params, func(call *plugin.Call) {
		call.Verdict, call.Start, call.Duration = plugin.Admitted, start, took
		if j.skipped != "" {
			call.Verdict, call.Why = plugin.Skipped, fmt.Sprintf("match condition %q is false", j.skipped)
			return
		}
		for i := range j.decisions {
			d := &j.decisions[i]
			switch {
			case d.erred:
				call.Verdict, call.Ignored, call.Why = plugin.Failed, !d.denied, d.message
				if d.condition {
					call.Why = conditionsFailed + call.Why
				}
			case d.denied:
				call.Verdict, call.Why = plugin.Refused, d.message
			default:
				continue
			}
			call.Expression = strings.TrimSpace(d.expression)
			in.binding.act(call)
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

// act says what becomes of a violation where the binding doesn't have the request refused for it.
func (b *binding) act(call *plugin.Call) {
	if call.Ignored || slices.Contains(b.actions, admissionregistrationv1.Deny) {
		return
	}
	if slices.Contains(b.actions, admissionregistrationv1.Warn) {
		call.Warnings = []string{call.Why}
	}
	call.Ignored = call.Verdict == plugin.Failed
	if call.Verdict == plugin.Refused {
		call.Verdict = plugin.Admitted
	}
	call.Why += fmt.Sprintf(" (not refused: validationActions of the binding are %v)", b.actions)
}

// reportMutations tells them what a policy did to the object, whose content was before.
func (p *pass) reportMutations(t *turn, o *outcome, start time.Time, took time.Duration, before map[string]any) {
	p.report(t.policy.name, t.binding, t.params, func(call *plugin.Call) {
		call.Verdict, call.Start, call.Duration = plugin.Admitted, start, took
		switch {
		case o.skipped != "":
			call.Verdict, call.Why = plugin.Skipped, fmt.Sprintf("match condition %q is false", o.skipped)
			return
		case o.failed != nil:
			call.Verdict, call.Ignored, call.Why = plugin.Failed, t.policy.ignores() && !o.refused, o.failed.Error()
			if o.condition {
				call.Why = conditionsFailed + call.Why
			}
		}
		if p.object == nil {
			return
		}
		after, err := p.object.Content()
		if err != nil {
			return
		}
		call.Patch = patch(before, after)
		dropped := p.dropped(t.version.Resource, &unstructured.Unstructured{Object: before}, p.object.Object())
		if call.Verdict == plugin.Admitted && len(dropped) > 0 {
			call.Why = fmt.Sprintf("its mutations set %s, which objects of this kind don't have",
				strings.Join(dropped, ", "))
		}
	})
}

// patch is what makes after of before, as JSON, nil for nothing. Contents are of JSON's own types,
// which can be encoded.
func patch(before, after map[string]any) []byte {
	operations, err := jsondiff.Of(before, after)
	if err != nil || len(operations) == 0 {
		return nil
	}
	encoded, err := json.Marshal(operations)
	if err != nil {
		return nil
	}
	return encoded
}
