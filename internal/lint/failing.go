// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/inventory"
)

// expressionFails looks for expressions that can't be evaluated: for an operation, or for what is known of a workload.
func (l *linting) expressionFails() {
	for _, c := range l.conditioned() {
		pass := "the policy isn't evaluated for these"
		if c.isWebhook {
			pass = "the webhook isn't asked about these"
		}
		for i, condition := range c.conditions {
			o := c.failures(i)
			l.addFailing(c.at(i), "match condition "+condition.Name, &o, c.fails, pass)
		}
	}
	for _, w := range l.Webhooks {
		l.labelsMissing(w)
	}
	for _, p := range l.Policies {
		some := judged(l.requests(constraintOf(p), nil), p.Variables, p.MatchConditions)
		for _, e := range expressionsOf(p) {
			what, pass, fails := "it", "the validation has no effect for these", p.Fails
			switch {
			case e.kind == expression.Variable, strings.HasPrefix(e.path, "/spec/matchConditions"):
				continue
			case e.kind == expression.Message:
				pass, fails = "the refusal says the expression that failed in place of this message", false
			case e.kind == expression.AuditAnnotation:
				pass = "nothing is recorded about these"
			case p.Mutating != nil:
				pass = "these aren't changed"
			}
			o := outcomesOf(some, false, p.Variables, e.text, e.kind)
			l.addFailing(e.place, what, &o, fails, pass)
		}
	}
}

// addFailing adds a finding if an expression fails for some operations, or a part of it does. pass says what happens
// under failurePolicy Ignore.
func (l *linting) addFailing(p place, what string, o *outcomes, fails bool, pass string) {
	const remedy = "leave the operation out of the rules, or ask for it first: a DELETE has only oldObject, a CREATE only " +
		"object; a field may be absent, for which has() asks"
	end := pass
	if fails {
		end = "each such request is refused"
	}
	switch {
	case len(o.failing) > 0:
		l.add(p, bySeverity(fails), change{}, fmt.Sprintf("%s can't be evaluated for %s: %s: %s", what, sentence(o.failing),
			o.failure, end), remedy)
	case len(o.partly) > 0:
		l.add(p, Warning, change{}, fmt.Sprintf("a part of %s can't be evaluated for %s: %s: if the rest doesn't decide, %s",
			strings.Replace(what, "it", "the expression", 1), sentence(o.partly), o.part, end), remedy)
	}
}

// labelsMissing looks for match conditions that can't be evaluated for the pods of workloads among the objects, because
// these lack a label or an annotation. Of other fields it isn't known what the defaults are.
func (l *linting) labelsMissing(w *inventory.Webhook) {
	if !slices.ContainsFunc(w.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
		return strings.Contains(c.Expression, "object.metadata.labels")
	}) {
		return
	}
	for _, c := range w.MatchConditions {
		fields, err := expression.Reads(c.Expression)
		if err != nil || slices.ContainsFunc(fields, func(f string) bool {
			return !strings.HasPrefix(f, "request.") && !strings.HasPrefix(f, "object.metadata.labels") && f != "object.metadata"
		}) {
			return
		}
	}
	var words []string
	var failure error
	for _, workload := range l.Workloads {
		write := inventory.PodCreation(workload)
		if _, err := l.Asks(l.ctx, w, write); err != nil && !slices.Contains(words, write.What) {
			words, failure = append(words, write.What), err
		}
	}
	if len(words) == 0 {
		return
	}
	end := "the webhook isn't asked about them"
	if w.Fails() {
		end = "they are refused, whether the webhook answers or not"
	}
	l.add(at(w, "matchConditions"), bySeverity(w.Fails()), change{}, fmt.Sprintf("its match conditions can't be evaluated for "+
		"%s: %v: %s", sentence(words), failure, end), "ask for the label first: has(object.metadata.labels) && \"name\" in "+
		"object.metadata.labels")
}

// deleters are the controllers that delete what others made: without them namespaces and what belongs to a deleted
// object stay for ever.
var deleters = map[string]string{"generic-garbage-collector": "the garbage collector",
	"namespace-controller": "the namespace controller"}

// controllersRefused looks for validations that refuse deletions to every controller, by who asks.
func (l *linting) controllersRefused() {
	for _, p := range l.Policies {
		if p.Validating == nil || !l.mayDeny(p) {
			continue
		}
		deletions := func(who user.Info) []request {
			return slices.DeleteFunc(judged(l.requests(constraintOf(p), who), p.Variables, p.MatchConditions), func(r request) bool {
				return r.operation != admission.Delete
			})
		}
		anybody := deletions(nil)
		for i, v := range p.Validating.Spec.Validations {
			if o := outcomesOf(anybody, false, p.Variables, v.Expression, expression.Condition); o.are(expression.AlwaysNot) {
				continue // it isn't about who asks
			}
			var refused []string
			for _, name := range sortedKeys(deleters) {
				o := outcomesOf(deletions(inventory.ServiceAccount("kube-system", name)), false, p.Variables, v.Expression,
					expression.Condition)
				if slices.Contains(o.all, expression.AlwaysNot) {
					refused = append(refused, deleters[name])
				}
			}
			if len(refused) > 0 {
				l.add(place{p.Document, fmt.Sprintf("/spec/validations/%d/expression", i), ""}, Warning, change{}, fmt.Sprintf(
					"it refuses each DELETE of %s: what belongs to a deleted object is never removed, and a namespace that has "+
						"such objects is never gone", sentence(refused)), "admit the users system:serviceaccount:kube-system:"+
					"generic-garbage-collector and system:serviceaccount:kube-system:namespace-controller for DELETE")
			}
		}
	}
}

// mayDeny reports whether a binding of a policy denies, or may be elsewhere.
func (l *linting) mayDeny(p *inventory.Policy) bool {
	bindings := l.bindingsOf(p)
	return len(bindings) == 0 || slices.ContainsFunc(bindings, func(b *inventory.Binding) bool {
		return slices.Contains(b.Actions, admissionregistrationv1.Deny)
	})
}
