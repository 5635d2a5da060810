// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/inventory"
)

var policyRules = []Rule{
	{"policy-unbound", Warning, "a policy has no binding", (*linting).policyUnbound},
	{"policy-audit-only", Warning, "a policy has only audited for more than 90 days", (*linting).policyAuditOnly},
	{"param-kind", Error, "a policy's kind of params doesn't exist", (*linting).paramKind},
	{"expression-invalid", Error, "a policy's expression doesn't compile", (*linting).expressionInvalid},
	{"expression-always", Warning, "a validation holds for every request", (*linting).expressionAlways},
	{"expression-never", Warning, "a validation holds for no request", (*linting).expressionNever},
	{"expression-fails", Error, "an expression can't be evaluated for an operation", (*linting).expressionFails},
	{"controllers-refused", Warning, "a policy refuses controllers that delete", (*linting).controllersRefused},
}

// trial is how long a policy may audit before somebody should decide.
const trial = 90 * 24 * time.Hour

// bindingsOf returns the bindings of a policy.
func (l *linting) bindingsOf(p *inventory.Policy) (bindings []*inventory.Binding) {
	for _, b := range l.Bindings {
		if b.Binds(p) {
			bindings = append(bindings, b)
		}
	}
	return bindings
}

func (l *linting) policyUnbound() {
	for _, p := range l.Policies {
		if len(l.bindingsOf(p)) == 0 {
			where := "in the files"
			if l.Complete {
				where = "in the cluster"
			}
			l.add(place{p.Document, "", ""}, Warning, change{}, "no binding "+where+" names it: it judges nothing",
				"create a "+p.Document.Object.GetKind()+"Binding for it")
		}
	}
}

func (l *linting) policyAuditOnly() {
	for _, p := range l.Policies {
		bindings := l.bindingsOf(p)
		audits := p.Validating != nil && len(bindings) > 0
		var since time.Time
		for _, b := range bindings {
			for _, action := range b.Actions {
				audits = audits && action == admissionregistrationv1.Audit
			}
			if created := b.Document.Object.GetCreationTimestamp().Time; created.After(since) {
				since = created
			}
		}
		if created := p.Document.Object.GetCreationTimestamp().Time; created.After(since) {
			since = created
		}
		if audits && !since.IsZero() && l.options.Now.Sub(since) > trial {
			l.add(place{p.Document, "", ""}, Warning, change{}, fmt.Sprintf("all its bindings only audit, since %s: whoever "+
				"violates it isn't told", since.Format(time.DateOnly)),
				"see whom it would refuse with gatehouse replay, and then let a binding warn or deny, or remove the policy")
		}
	}
}

func (l *linting) paramKind() {
	for _, p := range l.Policies {
		if p.ParamKind == nil {
			continue
		}
		kind := schema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind)
		has, known := l.hasKind(kind)
		if has {
			continue
		}
		severity, happens := bySeverity(p.Fails), fmt.Sprintf("there is no %s in %s", kind.Kind, kind.GroupVersion())
		if !known {
			severity, happens = Warning, happens+" among Kubernetes' kinds and the files' CustomResourceDefinitions"
		}
		end := "the policy can't be evaluated, and requests pass without it"
		if p.Fails {
			end = "the policy can't be evaluated, and each request that it is for is refused"
		}
		l.add(place{p.Document, "/spec/paramKind", ""}, severity, change{}, happens+": without it "+end,
			"name a kind that exists, or add its CustomResourceDefinition")
	}
}

// An evaluated is an expression of a policy.
type evaluated struct {
	place
	policy *inventory.Policy
	text   string
	kind   *expression.Kind
}

// expressionsOf returns the expressions of a policy, variables and match conditions among them.
func expressionsOf(p *inventory.Policy) (all []evaluated) {
	add := func(path, text string, kind *expression.Kind) {
		if strings.TrimSpace(text) != "" {
			all = append(all, evaluated{place{p.Document, path, ""}, p, text, kind})
		}
	}
	for i, c := range p.MatchConditions {
		add(fmt.Sprintf("/spec/matchConditions/%d/expression", i), c.Expression, expression.Condition)
	}
	for i, v := range p.Variables {
		add(fmt.Sprintf("/spec/variables/%d/expression", i), v.Expression, expression.Variable)
	}
	if p.Validating != nil {
		for i, v := range p.Validating.Spec.Validations {
			add(fmt.Sprintf("/spec/validations/%d/expression", i), v.Expression, expression.Condition)
			add(fmt.Sprintf("/spec/validations/%d/messageExpression", i), v.MessageExpression, expression.Message)
		}
		for i, a := range p.Validating.Spec.AuditAnnotations {
			add(fmt.Sprintf("/spec/auditAnnotations/%d/valueExpression", i), a.ValueExpression, expression.AuditAnnotation)
		}
	}
	if p.Mutating != nil {
		for i, m := range p.Mutating.Spec.Mutations {
			path := fmt.Sprintf("/spec/mutations/%d/", i)
			if m.ApplyConfiguration != nil {
				add(path+"applyConfiguration/expression", m.ApplyConfiguration.Expression, expression.ApplyConfiguration)
			}
			if m.JSONPatch != nil {
				add(path+"jsonPatch/expression", m.JSONPatch.Expression, expression.JSONPatch)
			}
		}
	}
	return all
}

// invalidExpressions returns the errors of the policy's expressions that don't compile, by their JSON pointers.
// API servers report those of variables where they are read.
func (l *linting) invalidExpressions(p *inventory.Policy) map[string]error {
	invalid := map[string]error{}
	composition := l.compiler.Compose(p.Variables, p.ParamKind != nil)
	for _, e := range expressionsOf(p) {
		if e.kind == expression.Variable {
			continue
		}
		if err := composition.Expression(strings.TrimSpace(e.text), e.kind).Prepare(); err != nil {
			invalid[e.path] = err
		}
	}
	return invalid
}

func (l *linting) expressionInvalid() {
	for _, p := range l.Policies {
		invalid := l.invalidExpressions(p)
		for _, e := range expressionsOf(p) {
			if err := invalid[e.path]; err != nil {
				l.add(e.place, Error, change{}, fmt.Sprintf("%v: API servers refuse the policy", err), "correct it")
			}
		}
	}
}

// eachValidation calls do with each validation of each policy, and its outcomes for the requests that the policy judges.
func (l *linting) eachValidation(do func(at place, o outcomes)) {
	for _, p := range l.Policies {
		if p.Validating == nil {
			continue
		}
		some := judged(l.requests(constraintOf(p), nil), p.Variables, p.MatchConditions)
		for i, v := range p.Validating.Spec.Validations {
			do(place{p.Document, fmt.Sprintf("/spec/validations/%d/expression", i), ""},
				outcomesOf(some, false, p.Variables, v.Expression, expression.Condition))
		}
	}
}

func (l *linting) expressionAlways() {
	l.eachValidation(func(at place, o outcomes) {
		if o.are(expression.AlwaysTrue) {
			l.add(at, Warning, change{}, "it is true for every request of the rules: it never refuses anything",
				"remove the validation, or correct it")
		}
	})
}

func (l *linting) expressionNever() {
	l.eachValidation(func(at place, o outcomes) {
		if o.are(expression.AlwaysNot) {
			l.add(at, Warning, change{}, "it is true for no request of the rules: it refuses each of them, whatever the object",
				"correct the validation; if it is to refuse everything, say so in an annotation that ignores this rule")
		}
	})
}
