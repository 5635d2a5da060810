// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/expression"
)

var adviceRules = []Rule{
	{"message-expression", Warning, "a message is an expression", (*linting).messageExpression},
	{"subresource-missing", Warning, "a policy can be passed by through a subresource", (*linting).subresourceMissing},
	{"refused", Error, "API servers refuse the object", (*linting).refused},
}

// variableNames are the names with which expressions begin.
var variableNames = []string{"object", "oldObject", "request", "params", "variables", "namespaceObject"}

// messageExpression looks for messages that are expressions: users see them as they are written.
func (l *linting) messageExpression() {
	for _, p := range l.Policies {
		if p.Validating == nil {
			continue
		}
		composition := l.compiler.Compose(p.Variables, p.ParamKind != nil)
		for i, v := range p.Validating.Spec.Validations {
			text := strings.TrimSpace(v.Message)
			fields, err := expression.Reads(text)
			if err != nil || !slices.ContainsFunc(fields, func(f string) bool {
				root, _, isField := strings.Cut(f, ".")
				return isField && slices.Contains(variableNames, root)
			}) || composition.Expression(text, expression.Message).Prepare() != nil {
				continue
			}
			path := fmt.Sprintf("/spec/validations/%d/message", i)
			l.add(place{p.Document, path, ""}, Warning, change{}, "the message is an expression, and users see it as it is written",
				"write it as messageExpression")
		}
	}
}

// others are the subresources through which fields of a resource change, with what expressions about these fields read.
var others = []struct {
	group       string
	resources   []string
	subresource string
	reads       *regexp.Regexp
}{
	{"", []string{"pods"}, "ephemeralcontainers", regexp.MustCompile(`\bobject\.spec\.\??ephemeralContainers\b`)},
	{"", []string{"pods"}, "resize", regexp.MustCompile(`(?s)\bobject\.spec\.\??(initC|c)ontainers\b.*\bresources\b`)},
	{"", []string{"replicationcontrollers"}, "scale", regexp.MustCompile(`\bobject\.spec\.\??replicas\b`)},
	{"apps", []string{"deployments", "replicasets", "statefulsets"}, "scale", regexp.MustCompile(`\bobject\.spec\.\??replicas\b`)},
}

// subresourceMissing looks for policies that judge a field on updates of the object, and not on those of the subresource
// through which it changes too.
func (l *linting) subresourceMissing() {
	for _, p := range l.Policies {
		var texts []string
		for _, e := range expressionsOf(p) {
			texts = append(texts, e.text)
		}
		c := constraintOf(p)
		matched := map[string]bool{}
		for i := range c.rules {
			for _, t := range l.targets(&c.rules[i], c.matchPolicy) {
				if t.operation == admission.Update {
					matched[t.Group+"/"+t.GroupVersionResource.Resource+"/"+t.Subresource] = true
				}
			}
		}
		for _, o := range others {
			var missing []string
			for _, resource := range o.resources {
				if name := o.group + "/" + resource + "/"; matched[name] && !matched[name+o.subresource] &&
					slices.ContainsFunc(texts, o.reads.MatchString) {
					missing = append(missing, resource+"/"+o.subresource)
				}
			}
			if len(missing) > 0 {
				l.add(place{p.Document, "/spec/matchConstraints/resourceRules", ""}, Warning, change{}, fmt.Sprintf("it reads a field "+
					"that also changes through %s, which its rules don't name: such a change isn't judged", sentence(missing)),
					fmt.Sprintf("name %s too", sentence(missing)))
			}
		}
	}
}

// refusedFor are the rules that say in other words what API servers refuse.
var refusedFor = []string{"condition-invalid", "expression-invalid", "side-effects", "review-versions", "ca-invalid"}

// refused asks the code with which API servers create objects. What other rules have found isn't said again.
func (l *linting) refused() {
	if l.options.Refusal == nil || l.options.Complete { // what a cluster has was not refused
		return
	}
	for _, d := range l.Documents {
		err := l.options.Refusal(l.ctx, d.Object)
		if err == nil {
			continue
		}
		status := (*apierrors.StatusError)(nil)
		if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
			l.add(place{d, "", ""}, Error, change{}, fmt.Sprintf("API servers refuse it: %v", err), "correct it")
			continue
		}
		for _, cause := range status.Status().Details.Causes {
			path := pointerOf(cause.Field)
			if !slices.ContainsFunc(l.report.Findings, func(f Finding) bool {
				return f.document.Object == d.Object && slices.Contains(refusedFor, f.ID) && strings.HasPrefix(path, f.path)
			}) {
				l.add(place{d, path, ""}, Error, change{}, fmt.Sprintf("API servers refuse it: %s: %s", cause.Field, cause.Message),
					"correct the field")
			}
		}
	}
}
