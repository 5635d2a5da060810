package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"gatehouse.dev/internal/expression"
)

// PolicyFields finds fields that expressions of ValidatingAdmissionPolicies read and that no object
// of the policy can have. It is for one goroutine.
//
// The status of a policy warns about each kind for which an expression has the wrong types. So it
// warns about every policy for several kinds that reads a field of only some. PolicyFields reports
// a field only if all kinds are known and all of them lack it.
type PolicyFields struct{ types *policyTypes }

// NewPolicyFields returns a PolicyFields for the kinds of a server.
func NewPolicyFields(client discovery.DiscoveryInterface, mapper meta.ResettableRESTMapper) *PolicyFields {
	return &PolicyFields{newPolicyTypes(&resolver.ClientDiscoveryResolver{Discovery: client}, mapper)}
}

// UnknownField is a field that an expression reads.
type UnknownField struct {
	// Path is the path of the expression in the policy.
	Path string
	// Message is CEL's message about the field.
	Message string
	// Kinds are the kinds of the policy's objects.
	Kinds []schema.GroupVersionKind
}

// Unknown returns the fields that no object of the policy can have, in the order of its
// expressions.
func (f *PolicyFields) Unknown(policy *admissionregistrationv1.ValidatingAdmissionPolicy) []UnknownField {
	kinds, all := f.types.kinds(policy)
	if !all || len(kinds) == 0 {
		return nil
	}
	paths, texts := expressionsOf(policy)
	issues := make([][][]expression.TypeIssue, len(kinds)) // by kind and expression
	for i, kind := range kinds {
		typed, err := f.types.typedFor(kind, paramsOf(policy))
		if err != nil {
			return nil // it may have any field
		}
		for _, err := range typed.Check(policy.Spec.Variables, texts...) {
			var wrong *expression.TypeError
			if !errors.As(err, &wrong) {
				wrong = &expression.TypeError{}
			}
			issues[i] = append(issues[i], slices.DeleteFunc(wrong.Issues, func(issue expression.TypeIssue) bool {
				return !strings.HasPrefix(issue.Message, undefinedField)
			}))
		}
	}
	var unknown []UnknownField
	untyped := f.untypedFields(kinds)
	for e, text := range texts {
		told, seen := map[string]bool{}, map[expression.TypeIssue]bool{}
		for _, found := range issues {
			for _, issue := range found[e] {
				if seen[issue] || told[issue.Message] || untyped[fieldOf(issue)] {
					continue
				}
				seen[issue] = true
				if !slices.ContainsFunc(issues, func(other [][]expression.TypeIssue) bool {
					return !lacks(other[e], issue, text)
				}) {
					told[issue.Message] = true
					unknown = append(unknown, UnknownField{Path: paths[e], Message: issue.Message, Kinds: kinds})
				}
			}
		}
	}
	return unknown
}

// undefinedField is the beginning of CEL's message about a missing field.
const undefinedField = "undefined field"

// fieldOf returns the name of the field that an issue is about.
func fieldOf(issue expression.TypeIssue) string {
	return strings.Trim(strings.TrimPrefix(issue.Message, undefinedField), " '")
}

// untypedFields returns the names of the kinds' fields that have no type in CEL, such as maps of quantities. They
// are there, though the type checker takes them for undefined.
func (f *PolicyFields) untypedFields(kinds []schema.GroupVersionKind) map[string]bool {
	names := map[string]bool{}
	var look func(s *spec.Schema)
	look = func(s *spec.Schema) {
		for name, property := range s.Properties {
			if common.SchemaDeclType(&celopenapi.Schema{Schema: &property}, false) == nil {
				names[name] = true
			}
			look(&property)
		}
		if s.Items != nil && s.Items.Schema != nil {
			look(s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			look(s.AdditionalProperties.Schema)
		}
	}
	for _, kind := range kinds {
		if stated, _, err := f.types.schemaOf(kind); err == nil {
			look(stated)
		}
	}
	return names
}

// expressionsOf returns a policy's expressions and their paths.
func expressionsOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (paths, texts []string) {
	spec := field.NewPath("spec")
	add := func(path *field.Path, text string) {
		if text != "" {
			paths, texts = append(paths, path.String()), append(texts, text)
		}
	}
	for i, c := range policy.Spec.MatchConditions {
		add(spec.Child("matchConditions").Index(i).Child("expression"), c.Expression)
	}
	for i, v := range policy.Spec.Variables {
		add(spec.Child("variables").Index(i).Child("expression"), v.Expression)
	}
	for i, v := range policy.Spec.Validations {
		path := spec.Child("validations").Index(i)
		add(path.Child("expression"), v.Expression)
		add(path.Child("messageExpression"), v.MessageExpression)
	}
	for i, a := range policy.Spec.AuditAnnotations {
		add(spec.Child("auditAnnotations").Index(i).Child("valueExpression"), a.ValueExpression)
	}
	return paths, texts
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
func (u UnknownField) String() string {
	var kinds []string
	for _, kind := range u.Kinds {
		kinds = append(kinds, kind.GroupVersion().String()+" "+kind.Kind)
	}
	return fmt.Sprintf("%s: %s of %s", u.Path, u.Message, strings.Join(kinds, ", "))
}
