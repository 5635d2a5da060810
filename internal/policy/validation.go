package policy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"gatehouse.dev/internal/expression"
)

// validations are what a ValidatingAdmissionPolicy does. They never change.
type validations struct {
	conditions *expression.Conditions
	// ignores says that what can't be evaluated is let pass.
	ignores bool

	validations []validation
	annotations []annotation
	// hasMessages says that there are messageExpressions.
	hasMessages bool
	// expressions are those of all three.
	expressions []*expression.Expression
	// readsParams tells whether any expression of the policy does.
	readsParams func() bool
}

type validation struct {
	*admissionregistrationv1.Validation
	condition *expression.Expression
	message   *expression.Expression // nil where there is none
}

type annotation struct {
	*admissionregistrationv1.AuditAnnotation
	value *expression.Expression
}

// compileValidations makes ready what a policy says.
func compileValidations(composition *expression.Composition, of *definition[*validations],
	spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) *validations {
	v := &validations{
		conditions:  of.conditions,
		ignores:     of.ignores(),
		validations: make([]validation, len(spec.Validations)),
		annotations: make([]annotation, len(spec.AuditAnnotations)),
	}
	for i := range spec.Validations {
		s := &spec.Validations[i]
		v.validations[i] = validation{Validation: s,
			condition: composition.Expression(s.Expression, expression.Condition)}
		v.expressions = append(v.expressions, v.validations[i].condition)
		if s.MessageExpression != "" {
			v.validations[i].message = composition.Expression(s.MessageExpression, expression.Message)
			v.expressions = append(v.expressions, v.validations[i].message)
			v.hasMessages = true
		}
	}
	for i := range spec.AuditAnnotations {
		s := &spec.AuditAnnotations[i]
		v.annotations[i] = annotation{s, composition.Expression(s.ValueExpression, expression.AuditAnnotation)}
		v.expressions = append(v.expressions, v.annotations[i].value)
	}
	if spec.ParamKind == nil {
		v.readsParams = func() bool { return false }
		return v
	}
	v.readsParams = sync.OnceValue(func() bool {
		reads := v.conditions.ReadsParams()
		for _, e := range v.expressions {
			reads = e.ReadsParams() || reads
		}
		return reads
	})
	return v
}

func (v *validations) prepare() {
	for _, e := range v.expressions {
		_ = e.Prepare()
	}
}

// judgement is what a policy came to on a request, for one params.
type judgement struct {
	decisions   []decision
	annotations []annotated
	// nothing says that there is nothing to do for it.
	nothing bool
	// skipped is the name of the match condition that is false, if one is.
	skipped string
}

// decision is what a validation came to.
type decision struct {
	denied bool
	// erred says that the validation could not be evaluated; denied is what the failure policy
	// makes of that.
	erred bool
	// condition says that it was a match condition that could not be.
	condition bool
	message   string
	reason    metav1.StatusReason
	elapsed   time.Duration
	// expression is the validation's; empty where it is not one validation that could not be
	// evaluated.
	expression string
}

// annotated is an audit annotation, or why there is none.
type annotated struct {
	key, value string
	err        string
	elapsed    time.Duration
}

// evaluate evaluates a policy.
//
// Source: Validate in k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go.
func (v *validations) evaluate(ctx context.Context, in *invocation, matches func(expression.Verdict)) *judgement {
	if v.conditions != nil {
		verdict := v.conditions.MatchParams(ctx, in.conditions, in.params)
		matches(verdict)
		if verdict.Err != nil {
			failed := v.failed(verdict.Err, 0)
			failed.condition = true
			return &judgement{decisions: []decision{failed}, nothing: v.ignores}
		}
		if !verdict.Matches {
			return &judgement{nothing: true, skipped: verdict.Failed}
		}
	}
	shown := expression.Inputs{Params: in.params, Namespace: in.namespace}
	authorized := shown
	authorized.Authorizer = true
	run := in.variables.Run(authorized)
	results := make([]expression.Result, len(v.validations))
	for i := range v.validations {
		var err error
		if results[i], err = run.Evaluate(ctx, v.validations[i].condition); err != nil {
			return &judgement{decisions: []decision{v.failed(err, 0)}}
		}
	}
	var messages []string
	var err error
	if v.hasMessages {
		messages, err = v.messages(ctx, run.Next(shown))
	}
	j := &judgement{decisions: make([]decision, len(results))}
	for i, result := range results {
		switch {
		case result.Err != nil:
			j.decisions[i] = v.failed(result.Err, result.Elapsed)
			j.decisions[i].expression = v.validations[i].Expression
		case err != nil:
			j.decisions[i] = v.failed(fmt.Errorf("failed messageExpression: %w", err), result.Elapsed)
		case result.Value.Value() != true:
			message := ""
			if messages != nil {
				message = messages[i]
			}
			j.decisions[i] = v.validations[i].deny(message, result.Elapsed)
		default:
			j.decisions[i] = decision{elapsed: result.Elapsed}
		}
	}
	if len(v.annotations) > 0 {
		if j.annotations, err = v.annotate(ctx, in.variables.Run(shown)); err != nil {
			return &judgement{decisions: []decision{v.failed(err, 0)}}
		}
	}
	j.nothing = len(j.annotations) == 0
	for i := range j.decisions {
		j.nothing = j.nothing && !j.decisions[i].denied && !j.decisions[i].erred
	}
	return j
}

// failed is what the failure policy makes of an error.
func (v *validations) failed(err error, elapsed time.Duration) decision {
	return decision{denied: !v.ignores, erred: true, message: err.Error(), elapsed: elapsed}
}

// messages evaluates all messageExpressions, also those of validations that hold: what they cost
// may be more than is left of the budget. An error of one is none of the validation's.
func (v *validations) messages(ctx context.Context, run *expression.Run) ([]string, error) {
	messages := make([]string, len(v.validations))
	for i := range v.validations {
		message := v.validations[i].message
		if message == nil {
			continue
		}
		result, err := run.Evaluate(ctx, message)
		if err != nil {
			return messages, err
		}
		if result.Err == nil {
			messages[i] = usable(result.Value.Value())
		}
	}
	return messages, nil
}

// usable returns what a messageExpression came to, or nothing where that is no message: one line of
// 5 KiB at most.
func usable(value any) string {
	message, _ := value.(string)
	message = strings.TrimSpace(message)
	if len(message) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(message, "\n") {
		return ""
	}
	return message
}

// deny is the decision on an object that violates the validation. The first of messages that there
// is is used: that of messageExpression, message, or one made of the expression.
func (v *validation) deny(message string, elapsed time.Duration) decision {
	if message == "" {
		message = strings.TrimSpace(v.Message)
	}
	if message == "" {
		message = "failed expression: " + strings.TrimSpace(v.Validation.Expression)
	}
	d := decision{denied: true, message: message, reason: metav1.StatusReasonInvalid, elapsed: elapsed,
		expression: v.Expression}
	if v.Reason != nil {
		d.reason = *v.Reason
	}
	return d
}

// annotations evaluates the audit annotations. Those that come to nothing are left out, and so are
// those in error where the failure policy ignores that.
func (v *validations) annotate(ctx context.Context, run *expression.Run) ([]annotated, error) {
	var all []annotated
	for i := range v.annotations {
		stated := &v.annotations[i]
		result, err := run.Evaluate(ctx, stated.value)
		if err != nil {
			return nil, err
		}
		a := annotated{key: stated.Key, elapsed: result.Elapsed}
		if result.Err != nil {
			if v.ignores {
				continue
			}
			a.err = result.Err.Error()
		} else if text, _ := result.Value.Value().(string); strings.TrimSpace(text) == "" { // or null
			continue
		} else {
			a.value = strings.TrimSpace(text)
		}
		all = append(all, a)
	}
	return all, nil
}
