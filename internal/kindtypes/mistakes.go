// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"gatehouse.dev/internal/expression"
)

// A Mistake is an error in the types of an expression that it has for all kinds of a policy's objects.
type Mistake struct {
	// Path is the path of the expression in the policy.
	Path string
	// Message is CEL's message about it.
	Message string
	// Kinds are the kinds of the policy's objects.
	Kinds []schema.GroupVersionKind
}

// UnknownFields returns the fields that the policy's expressions read and that none of its objects can have, in
// the order of the expressions.
//
// The status of a policy warns about each kind for which an expression has the wrong types. So it
// warns about every policy for several kinds that reads a field of only some. UnknownFields returns
// a field only if all kinds are known and all of them lack it.
func (t *Types) UnknownFields(policy *admissionregistrationv1.ValidatingAdmissionPolicy) []Mistake {
	return t.mistakes(policy, isUndefinedField)
}

// Mistakes returns the errors in the types of the policy's expressions, in the order of the expressions. As
// UnknownFields, it returns only those that all kinds have. It leaves out what the type checker takes for an
// error and what works when a server evaluates it.
func (t *Types) Mistakes(policy *admissionregistrationv1.ValidatingAdmissionPolicy) []Mistake {
	return t.mistakes(policy, func(message string) bool {
		switch {
		case strings.Contains(message, library.AuthorizerType.String()):
			return false // it doesn't know authorizer.requestResource
		case strings.HasPrefix(message, noOverload):
			// Two lists of objects have different types, even if these have the same fields.
			_, arguments, _ := strings.Cut(message, " applied to ")
			return !strings.Contains(arguments, ".")
		}
		return true
	})
}

// mistakes returns the mistakes with messages that count.
func (t *Types) mistakes(policy *admissionregistrationv1.ValidatingAdmissionPolicy,
	counts func(message string) bool) (mistakes []Mistake) {
	kinds, all := t.kinds(policy)
	if !all || len(kinds) == 0 {
		return nil
	}
	expressions := expressionsOf(policy)
	issues := make([][][]expression.TypeIssue, len(kinds)) // by kind and expression
	for i, kind := range kinds {
		typed, err := t.typedFor(kind, paramsOf(policy))
		if err != nil {
			return nil // it may have any field
		}
		for _, err := range typed.Check(policy.Spec.Variables, texts(expressions)...) {
			var wrong *expression.TypeError
			if !errors.As(err, &wrong) {
				wrong = &expression.TypeError{}
			}
			issues[i] = append(issues[i], slices.DeleteFunc(wrong.Issues, func(issue expression.TypeIssue) bool {
				return !counts(issue.Message)
			}))
		}
	}
	untyped, open := t.untypedFields(kinds)
	for e, checked := range expressions {
		isOpen := readsAny(checked.text, open)
		told, seen := map[string]bool{}, map[expression.TypeIssue]bool{}
		for _, found := range issues {
			for _, issue := range found[e] {
				message := typeNumber.ReplaceAllString(issue.Message, "$1")
				if seen[issue] || told[message] || untyped[fieldOf(issue)] || isOpen && isUndefinedField(message) {
					continue
				}
				seen[issue] = true
				if !slices.ContainsFunc(issues, func(other [][]expression.TypeIssue) bool {
					return !lacks(other[e], issue, checked.text)
				}) {
					told[message] = true
					mistakes = append(mistakes, Mistake{Path: checked.path, Message: message, Kinds: kinds})
				}
			}
		}
	}
	return mistakes
}

// typeNumber matches the number at the end of a type's name, by which Kubernetes tells apart the types of a kind
// at different times.
var typeNumber = regexp.MustCompile(`\b([A-Z][A-Za-z]*)\d{4,9}\b`)

// undefinedField is the beginning of CEL's message about a missing field.
const undefinedField = "undefined field"

// noOverload is the beginning of CEL's message about operands of types that don't fit.
const noOverload = "found no matching overload"

// isUndefinedField reports whether a message is about a missing field.
func isUndefinedField(message string) bool { return strings.HasPrefix(message, undefinedField) }

// fieldOf returns the name of the field that an issue is about.
func fieldOf(issue expression.TypeIssue) string {
	return strings.Trim(strings.TrimPrefix(issue.Message, undefinedField), " '")
}

// untypedFields returns the names of the kinds' fields that have no type in CEL, such as maps of quantities, and
// of those that may have any fields. They are there, though the type checker takes what is in them for undefined.
// The empty name stands for objects that may have any fields themselves.
func (t *Types) untypedFields(kinds []schema.GroupVersionKind) (untyped, open map[string]bool) {
	untyped, open = map[string]bool{}, map[string]bool{}
	var look func(name string, s *spec.Schema)
	look = func(name string, s *spec.Schema) {
		if (&celopenapi.Schema{Schema: s}).IsXPreserveUnknownFields() {
			open[name] = true
		}
		for below, property := range s.Properties {
			if common.SchemaDeclType(&celopenapi.Schema{Schema: &property}, false) == nil {
				untyped[below] = true
			}
			look(below, &property)
		}
		if s.Items != nil && s.Items.Schema != nil {
			look(name, s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			look(name, s.AdditionalProperties.Schema)
		}
	}
	for _, kind := range kinds {
		if stated, _, err := t.schemaOf(kind); err == nil {
			look("", stated)
		}
	}
	return untyped, open
}

// readsAny reports whether an expression reads a field with one of the names.
func readsAny(text string, names map[string]bool) bool {
	if names[""] {
		return true
	}
	for _, word := range words.FindAllString(text, -1) {
		if names[word] {
			return true
		}
	}
	return false
}

var words = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// A policyExpression is an expression of a policy with its path.
type policyExpression struct {
	path, text string
	use        use
}

// A use is what an expression is evaluated for.
type use int

const (
	condition use = iota
	validation
	annotation
)

// expressionsOf returns a policy's expressions. Variables count as parts of its validations.
func expressionsOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (all []policyExpression) {
	spec := field.NewPath("spec")
	add := func(path *field.Path, text string, u use) {
		if text != "" {
			all = append(all, policyExpression{path.String(), text, u})
		}
	}
	for i, c := range policy.Spec.MatchConditions {
		add(spec.Child("matchConditions").Index(i).Child("expression"), c.Expression, condition)
	}
	for i, v := range policy.Spec.Variables {
		add(spec.Child("variables").Index(i).Child("expression"), v.Expression, validation)
	}
	for i, v := range policy.Spec.Validations {
		path := spec.Child("validations").Index(i)
		add(path.Child("expression"), v.Expression, validation)
		add(path.Child("messageExpression"), v.MessageExpression, validation)
	}
	for i, a := range policy.Spec.AuditAnnotations {
		add(spec.Child("auditAnnotations").Index(i).Child("valueExpression"), a.ValueExpression, annotation)
	}
	return all
}

// texts returns the texts of expressions.
func texts(expressions []policyExpression) (all []string) {
	for _, e := range expressions {
		all = append(all, e.text)
	}
	return all
}

// lacks reports whether a kind with these issues lacks the field of another kind's issue too. It
// does if it has the same issue, or one further left in the same chain of fields.
func lacks(issues []expression.TypeIssue, other expression.TypeIssue, text string) bool {
	return slices.ContainsFunc(issues, func(issue expression.TypeIssue) bool {
		if issue.Line != other.Line || issue.Column > other.Column {
			return false
		}
		line := []rune(strings.Split(text, "\n")[issue.Line-1])
		return strings.Trim(string(line[issue.Column:other.Column]), fieldChain) == ""
	})
}

// fieldChain are the characters in a chain of field selections.
const fieldChain = "._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// String names the expression, what it reads, and the kinds.
func (m Mistake) String() string {
	var kinds []string
	for _, kind := range m.Kinds {
		kinds = append(kinds, kind.GroupVersion().String()+" "+kind.Kind)
	}
	return fmt.Sprintf("%s: %s of %s", m.Path, m.Message, strings.Join(kinds, ", "))
}
