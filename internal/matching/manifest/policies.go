// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/internal/expression"
)

// checkStatic returns an error if a policy or binding has something that is allowed in the API, but
// not in a file: params, or a reference between files and the API.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/manifest/loader#validatePolicyManifestConstraints 9c7cd026
func checkStatic(object Object) error {
	const noParams = "%s %q: spec.paramKind is not supported for static manifests"
	switch o := object.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if o.Spec.ParamKind != nil {
			return fmt.Errorf(noParams, KindOf(o), o.Name)
		}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		if o.Spec.ParamKind != nil {
			return fmt.Errorf(noParams, KindOf(o), o.Name)
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return checkStaticBinding(o.Name, o.Spec.PolicyName, o.Spec.ParamRef)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return checkStaticBinding(o.Name, o.Spec.PolicyName, o.Spec.ParamRef)
	}
	return nil
}

func checkStaticBinding(name, policy string, params *admissionregistrationv1.ParamRef) error {
	switch {
	case !strings.HasSuffix(policy, nameSuffix):
		return fmt.Errorf("binding %q: spec.policyName %q must end with %q", name, policy, nameSuffix)
	case params != nil:
		return fmt.Errorf("binding %q: spec.paramRef is not supported for static manifests", name)
	}
	return nil
}

// boundPolicyName returns the name of the policy that a binding names. ok is false for other
// objects.
func boundPolicyName(object Object) (name string, ok bool) {
	switch o := object.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return o.Spec.PolicyName, true
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return o.Spec.PolicyName, true
	}
	return "", false
}

// The remaining checks are the API's own. checkStatic refuses a policy with a paramKind.

const (
	maxAuditAnnotations = 20
	// maxValueExpression is in bytes.
	maxValueExpression = 5 * 1024
)

var (
	actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit,
		admissionregistrationv1.Deny, admissionregistrationv1.Warn}
	reasons = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
		metav1.StatusReasonRequestEntityTooLarge}
	patchTypes = []admissionregistrationv1.PatchType{admissionregistrationv1.PatchTypeApplyConfiguration,
		admissionregistrationv1.PatchTypeJSONPatch}
	// A deletion can't be mutated.
	mutatingOperations = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll,
		admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Update}
)

func validateValidatingPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy, compiler *expression.Compiler,
	path *field.Path) field.ErrorList {
	spec := &p.Spec
	in := compileAlone(compiler, spec.ParamKind != nil)
	if len(spec.Variables) > 0 {
		in = compiler.Compose(spec.Variables, spec.ParamKind != nil).Expression
	}
	errs := validateOneOf(path.Child("failurePolicy"), spec.FailurePolicy, failurePolicies)
	errs = append(errs, validateConstraints(spec.MatchConstraints, path.Child("matchConstraints"))...)
	errs = append(errs, validateMatchConditions(spec.MatchConditions, compileAlone(compiler, spec.ParamKind != nil),
		path.Child("matchConditions"))...)
	errs = append(errs, validateVariables(spec.Variables, compiler, spec.ParamKind != nil, path.Child("variables"))...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const atLeastOne = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), atLeastOne),
			field.Required(path.Child("auditAnnotations"), atLeastOne))
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], in, path.Child("validations").Index(i))...)
	}
	return append(errs, validateAuditAnnotations(p.Name, spec.AuditAnnotations, in, path.Child("auditAnnotations"))...)
}

func validateConstraints(m *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	errs := validateMatchResources(m, path)
	if len(m.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("resourceRules"), ""))
	}
	return errs
}

func validateMatchResources(m *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	errs := validateOneOf(path.Child("matchPolicy"), m.MatchPolicy, matchPolicies)
	errs = append(errs, validateSelector(path.Child("namespaceSelector"), m.NamespaceSelector)...)
	errs = append(errs, validateSelector(path.Child("objectSelector"), m.ObjectSelector)...)
	errs = append(errs, validateNamedRules(m.ResourceRules, path.Child("resourceRules"))...)
	return append(errs, validateNamedRules(m.ExcludeResourceRules, path.Child("excludeResourceRules"))...)
}

func validateNamedRules(rules []admissionregistrationv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		names := path.Index(i).Child("resourceNames")
		for n, name := range rule.ResourceNames {
			for _, problem := range content.IsPathSegmentName(name) {
				errs = append(errs, field.Invalid(names.Index(n), name, problem))
			}
			if slices.Contains(rule.ResourceNames[:n], name) {
				errs = append(errs, field.Duplicate(names.Index(n), name))
			}
		}
		errs = append(errs, validateRule(rule.RuleWithOperations, path.Index(i))...)
	}
	return errs
}

// validateVariables compiles each variable with those before it.
func validateVariables(variables []admissionregistrationv1.Variable, compiler *expression.Compiler, params bool,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range variables {
		name, text := path.Index(i).Child("name"), path.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(name, "name is not specified"))
		case !isIdentifier(v.Name):
			errs = append(errs, field.Invalid(name, v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(text, "expression is not specified"))
			continue
		}
		e := compiler.Compose(variables[:i], params).Expression(v.Expression, expression.Variable)
		errs = append(errs, validateExpression(e, v.Expression, text)...)
	}
	return errs
}

// compileFunc compiles an expression of a policy or webhook.
type compileFunc func(text string, kind *expression.Kind) *expression.Expression

// compileAlone returns a compileFunc for expressions without variables.
func compileAlone(compiler *expression.Compiler, params bool) compileFunc {
	return func(text string, kind *expression.Kind) *expression.Expression {
		return compiler.Expression(text, kind, params)
	}
}

// validateExpression compiles an expression. text is the expression as it is written.
func validateExpression(e *expression.Expression, text string, path *field.Path) field.ErrorList {
	if err := e.Prepare(); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}

var identifier = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")

// reservedWords are the reserved words of CEL.
var reservedWords = strings.Fields("true false null in as break const continue else for function if import let loop " +
	"package namespace return var void while")

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reservedWords, name)
}

func validateValidation(v *admissionregistrationv1.Validation, in compileFunc,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		e := in(v.Expression, expression.Condition)
		errs = append(errs, validateExpression(e, v.Expression, path.Child("expression"))...)
	}
	if v.MessageExpression != "" {
		message := path.Child("messageExpression")
		if strings.TrimSpace(v.MessageExpression) == "" {
			errs = append(errs, field.Invalid(message, v.MessageExpression, "must be non-empty if specified"))
		} else {
			e := in(v.MessageExpression, expression.Message)
			errs = append(errs, validateExpression(e, v.MessageExpression, message)...)
		}
	}
	switch message := strings.TrimSpace(v.Message); {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, validateOneOf(path.Child("reason"), v.Reason, reasons)...)
}

func validateAuditAnnotations(policy string, annotations []admissionregistrationv1.AuditAnnotation,
	in compileFunc, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(annotations) > maxAuditAnnotations {
		// Shown like Kubernetes' internal type, which has no names for JSON.
		shown := make([]struct{ Key, ValueExpression string }, len(annotations))
		for i, a := range annotations {
			shown[i].Key, shown[i].ValueExpression = a.Key, a.ValueExpression
		}
		errs = append(errs, field.Invalid(path, shown,
			fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	for i, a := range annotations {
		key, value := path.Index(i).Child("key"), path.Index(i).Child("valueExpression")
		if policy == "" {
			errs = append(errs, field.Invalid(key, a.Key, "requires metadata.name be non-empty"))
		} else {
			for _, problem := range validation.IsQualifiedName(policy + "/" + a.Key) {
				errs = append(errs, field.Invalid(key, policy+"/"+a.Key, problem))
			}
		}
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			errs = append(errs, field.Required(value, "valueExpression is not specified"))
		case len(text) > maxValueExpression:
			errs = append(errs,
				field.Required(value, fmt.Sprintf("must not exceed %d bytes in length", maxValueExpression)))
		default:
			e := in(text, expression.AuditAnnotation)
			errs = append(errs, validateExpression(e, a.ValueExpression, value)...)
		}
		if slices.ContainsFunc(annotations[:i],
			func(before admissionregistrationv1.AuditAnnotation) bool { return before.Key == a.Key }) {
			errs = append(errs, field.Duplicate(key, a.Key))
		}
	}
	return errs
}

func validateMutatingPolicy(spec *admissionregistrationv1.MutatingAdmissionPolicySpec, compiler *expression.Compiler,
	path *field.Path) field.ErrorList {
	in := compiler.Compose(spec.Variables, spec.ParamKind != nil).Expression
	errs := validateOneOf(path.Child("failurePolicy"), spec.FailurePolicy, failurePolicies)
	errs = append(errs, validateConstraints(spec.MatchConstraints, path.Child("matchConstraints"))...)
	errs = append(errs, validateMutatingOperations(spec.MatchConstraints, path.Child("matchConstraints"))...)
	errs = append(errs, validateMatchConditions(spec.MatchConditions, compileAlone(compiler, spec.ParamKind != nil),
		path.Child("matchConditions"))...)
	errs = append(errs, validateVariables(spec.Variables, compiler, spec.ParamKind != nil, path.Child("variables"))...)
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range spec.Mutations {
		errs = append(errs, validateMutation(&spec.Mutations[i], in, path.Child("mutations").Index(i))...)
	}
	if spec.ReinvocationPolicy == "" {
		return append(errs, field.Required(path.Child("reinvocationPolicy"), ""))
	}
	return append(errs,
		validateOneOf(path.Child("reinvocationPolicy"), &spec.ReinvocationPolicy, reinvocationPolicies)...)
}

func validateMutatingOperations(m *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	for _, rule := range m.ResourceRules {
		for _, operation := range rule.Operations {
			errs = append(errs,
				validateOneOf(path.Child("resourceRules", "operations"), &operation, mutatingOperations)...)
		}
	}
	return errs
}

func validateMutation(m *admissionregistrationv1.Mutation, in compileFunc,
	path *field.Path) field.ErrorList {
	apply, patch := path.Child("applyConfiguration"), path.Child("jsonPatch")
	switch m.PatchType {
	case "":
		return field.ErrorList{field.Required(path.Child("patchType"), "")}
	case admissionregistrationv1.PatchTypeJSONPatch:
		var errs field.ErrorList
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(patch, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, validatePatch(m.JSONPatch.Expression, expression.JSONPatch, in, patch)...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}",
				"must not be specified when patchType is JSONPatch"))
		}
		return errs
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		var errs field.ErrorList
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs,
				validatePatch(m.ApplyConfiguration.Expression, expression.ApplyConfiguration, in, apply)...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(patch, "{jsonPatch}",
				"must not be specified when patchType is ApplyConfiguration"))
		}
		return errs
	default:
		return validateOneOf(path.Child("patchType"), &m.PatchType, patchTypes)
	}
}

func validatePatch(stated string, kind *expression.Kind, in compileFunc, path *field.Path) field.ErrorList {
	text := strings.TrimSpace(stated)
	if text == "" {
		return field.ErrorList{field.Required(path.Child("expression"), "")}
	}
	return validateExpression(in(text, kind), text, path.Child("expression"))
}

func validateValidatingBinding(spec *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec,
	path *field.Path) field.ErrorList {
	errs := validatePolicyName(spec.PolicyName, path.Child("policyName"))
	errs = append(errs, validateMatchResources(spec.MatchResources, path.Child("matchResources"))...)
	stated, list := path.Child("validationActions"), spec.ValidationActions
	for i := range list {
		errs = append(errs, validateOneOf(stated.Index(i), &list[i], actions)...)
		if slices.Contains(list[:i], list[i]) {
			errs = append(errs, field.Duplicate(stated.Index(i), list[i]))
		}
	}
	if slices.Contains(list, admissionregistrationv1.Deny) && slices.Contains(list, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(stated, list, "must not contain both Deny and Warn (repeating the same "+
			"validation failure information in the API response and headers serves no purpose)"))
	}
	if len(list) == 0 {
		errs = append(errs, field.Required(stated, "at least one validation action is required"))
	}
	return errs
}

func validateMutatingBinding(spec *admissionregistrationv1.MutatingAdmissionPolicyBindingSpec,
	path *field.Path) field.ErrorList {
	errs := validatePolicyName(spec.PolicyName, path.Child("policyName"))
	errs = append(errs, validateMatchResources(spec.MatchResources, path.Child("matchResources"))...)
	return append(errs, validateMutatingOperations(spec.MatchResources, path.Child("matchResources"))...)
}

func validatePolicyName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, problem := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}
