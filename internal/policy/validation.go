// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// validations holds what a ValidatingAdmissionPolicy does. It never changes.
type validations struct {
	conditions *expression.Conditions
	// ignoresFailures reports whether requests pass that can't be evaluated.
	ignoresFailures bool

	validations []validation
	annotations []annotation
	// hasMessages reports whether there are messageExpressions.
	hasMessages bool
	// expressions holds the expressions of validations, messages and annotations.
	expressions []*expression.Expression
	// readsParams reports whether any expression of the policy reads params.
	readsParams func() bool
}

type validation struct {
	*admissionregistrationv1.Validation
	condition *expression.Expression
	message   *expression.Expression // nil if there is none
}

type annotation struct {
	*admissionregistrationv1.AuditAnnotation
	value *expression.Expression
}

// compileValidations returns the validations of a policy's spec.
func compileValidations(composition *expression.Composition, d *definition[*validations],
	spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) *validations {
	v := &validations{
		conditions:      d.conditions,
		ignoresFailures: d.ignoresFailures(),
		validations:     make([]validation, len(spec.Validations)),
		annotations:     make([]annotation, len(spec.AuditAnnotations)),
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

// judgement is the result of a policy for a request and one params.
type judgement struct {
	decisions   []decision
	annotations []annotationResult
	// nothingToDo reports whether the policy has no effect on the request.
	nothingToDo bool
	// skipped is the name of the match condition that is false, if one is.
	skipped string
}

// decision is the result of a validation.
type decision struct {
	denied bool
	// erred reports whether the validation could not be evaluated. Then denied follows from the
	// failurePolicy.
	erred bool
	// inCondition reports whether a match condition could not be evaluated.
	inCondition bool
	message     string
	reason      metav1.StatusReason
	elapsed     time.Duration
	// expression is the text of the validation. It is empty if the error isn't that of a single
	// validation.
	expression string
	// condition is the validation that was violated, nil if none was.
	condition *expression.Expression
}

// annotationResult is an audit annotation or, if err isn't empty, why it could not be evaluated.
type annotationResult struct {
	key, value string
	err        string
	elapsed    time.Duration
}

// evaluate evaluates a policy. It passes the result of the match conditions, if there are any, to
// matches.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go#Validate 07fcccc0
func (v *validations) evaluate(ctx context.Context, in *invocation, matches func(expression.Verdict)) *judgement {
	if v.conditions != nil {
		verdict := v.conditions.MatchParams(ctx, in.conditions, in.params)
		matches(verdict)
		if verdict.Err != nil {
			failed := v.failed(verdict.Err, 0)
			failed.inCondition = true
			return &judgement{decisions: []decision{failed}, nothingToDo: v.ignoresFailures}
		}
		if !verdict.Matches {
			return &judgement{nothingToDo: true, skipped: verdict.Failed}
		}
	}
	inputs := expression.Inputs{Params: in.params, Namespace: in.namespace}
	withAuthorizer := inputs
	withAuthorizer.Authorizer = true
	run := in.variables.Run(withAuthorizer)
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
		messages, err = v.messages(ctx, run.Continue(inputs))
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
			j.decisions[i] = v.validations[i].denial(message, result.Elapsed)
		default:
			j.decisions[i] = decision{elapsed: result.Elapsed}
		}
	}
	if len(v.annotations) > 0 {
		if j.annotations, err = v.annotate(ctx, in.variables.Run(inputs)); err != nil {
			return &judgement{decisions: []decision{v.failed(err, 0)}}
		}
	}
	j.nothingToDo = len(j.annotations) == 0
	for i := range j.decisions {
		j.nothingToDo = j.nothingToDo && !j.decisions[i].denied && !j.decisions[i].erred
	}
	return j
}

// failed returns the decision for an error: denied, unless the failurePolicy is Ignore.
func (v *validations) failed(err error, elapsed time.Duration) decision {
	return decision{denied: !v.ignoresFailures, erred: true, message: err.Error(), elapsed: elapsed}
}

// messages evaluates all messageExpressions, including those of validations that hold, as upstream:
// together they may exceed the budget. An error in one message leaves that message empty.
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
			messages[i] = usableMessage(result.Value.Value())
		}
	}
	return messages, nil
}

// usableMessage returns the result of a messageExpression, or "" if it can't be used: a message is
// one line of at most 5 KiB.
func usableMessage(value any) string {
	message, _ := value.(string)
	message = strings.TrimSpace(message)
	if len(message) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(message, "\n") {
		return ""
	}
	return message
}

// denial returns the decision for an object that violates the validation. The message is the first
// one that isn't empty: that of messageExpression, that of message, or one with the expression.
func (v *validation) denial(message string, elapsed time.Duration) decision {
	if message == "" {
		message = strings.TrimSpace(v.Message)
	}
	if message == "" {
		message = "failed expression: " + strings.TrimSpace(v.Validation.Expression)
	}
	d := decision{denied: true, message: message, reason: metav1.StatusReasonInvalid, elapsed: elapsed,
		expression: v.Expression, condition: v.condition}
	if v.Reason != nil {
		d.reason = *v.Reason
	}
	return d
}

// annotate evaluates the audit annotations. It leaves out empty ones and, if the failurePolicy is
// Ignore, those with an error.
func (v *validations) annotate(ctx context.Context, run *expression.Run) ([]annotationResult, error) {
	var all []annotationResult
	for i := range v.annotations {
		stated := &v.annotations[i]
		result, err := run.Evaluate(ctx, stated.value)
		if err != nil {
			return nil, err
		}
		a := annotationResult{key: stated.Key, elapsed: result.Elapsed}
		if result.Err != nil {
			if v.ignoresFailures {
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
