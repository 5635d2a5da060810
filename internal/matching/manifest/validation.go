// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"gatehouse.dev/internal/expression"
)

// A configuration in a file must pass the API's own checks. Those are functions of
// k8s.io/kubernetes on its internal types (pkg/apis/admissionregistration/validation). The
// functions here repeat them for the types of k8s.io/api.

const maxMatchConditions = 64

var (
	failurePolicies = []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
		admissionregistrationv1.Ignore}
	matchPolicies = []admissionregistrationv1.MatchPolicyType{admissionregistrationv1.Equivalent,
		admissionregistrationv1.Exact}
	sideEffects = []admissionregistrationv1.SideEffectClass{admissionregistrationv1.SideEffectClassNone,
		admissionregistrationv1.SideEffectClassNoneOnDryRun}
	reinvocationPolicies = []admissionregistrationv1.ReinvocationPolicyType{
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy,
	}
	scopes = []admissionregistrationv1.ScopeType{admissionregistrationv1.AllScopes,
		admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope}
	operations = []admissionregistrationv1.OperationType{
		admissionregistrationv1.OperationAll, admissionregistrationv1.Connect, admissionregistrationv1.Create,
		admissionregistrationv1.Delete, admissionregistrationv1.Update,
	}
	reviewVersions = []string{"v1", "v1beta1"}
)

// validate returns everything that is wrong with an object that has its defaults.
func validate(object Object, compiler *expression.Compiler) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessor(object, false, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	spec := field.NewPath("spec")
	switch o := object.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return append(errs, validateValidatingPolicy(o, compiler, spec)...)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return append(errs, validateValidatingBinding(&o.Spec, spec)...)
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return append(errs, validateMutatingPolicy(&o.Spec, compiler, spec)...)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return append(errs, validateMutatingBinding(&o.Spec, spec)...)
	default:
		return append(errs, validateWebhooks(Webhooks(object), compiler)...)
	}
}

func validateWebhooks(webhooks []admissionregistrationv1.MutatingWebhook,
	compiler *expression.Compiler) (errs field.ErrorList) {
	names := sets.New[string]()
	for i, w := range webhooks {
		path := field.NewPath("webhooks").Index(i)
		errs = append(errs, validateWebhook(w, compiler, path)...)
		if w.Name != "" && names.Has(w.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), w.Name))
		}
		names.Insert(w.Name)
	}
	return errs
}

func validateWebhook(w admissionregistrationv1.MutatingWebhook, compiler *expression.Compiler,
	path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), w.Name)
	for i, rule := range w.Rules {
		errs = append(errs, validateRule(rule, path.Child("rules").Index(i))...)
	}
	errs = append(errs, validateOneOf(path.Child("failurePolicy"), w.FailurePolicy, failurePolicies)...)
	errs = append(errs, validateOneOf(path.Child("matchPolicy"), w.MatchPolicy, matchPolicies)...)
	if w.SideEffects == nil {
		errs = append(errs, field.Required(path.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	}
	errs = append(errs, validateOneOf(path.Child("sideEffects"), w.SideEffects, sideEffects)...)
	if t := w.TimeoutSeconds; t != nil && (*t < 1 || *t > 30) {
		errs = append(errs,
			field.Invalid(path.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, validateSelector(path.Child("namespaceSelector"), w.NamespaceSelector)...)
	errs = append(errs, validateSelector(path.Child("objectSelector"), w.ObjectSelector)...)
	errs = append(errs, validateOneOf(path.Child("reinvocationPolicy"), w.ReinvocationPolicy, reinvocationPolicies)...)
	errs = append(errs, validateClientConfig(w.ClientConfig, path.Child("clientConfig"))...)
	errs = append(errs,
		validateMatchConditions(w.MatchConditions, compileAlone(compiler, false), path.Child("matchConditions"))...)
	return append(errs, validateReviewVersions(w.AdmissionReviewVersions, path.Child("admissionReviewVersions"))...)
}

func validateOneOf[V ~string](path *field.Path, value *V, supported []V) field.ErrorList {
	if value == nil || slices.Contains(supported, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *value, supported)}
}

func validateSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

func validateClientConfig(c admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Service != nil {
		errs = append(errs, field.Forbidden(path.Child("service"),
			"clientConfig.service is not supported for static manifests; use clientConfig.url instead"))
	}
	if c.URL != nil {
		errs = append(errs, webhook.ValidateWebhookURL(path.Child("url"), *c.URL, true)...)
	} else if c.Service == nil {
		errs = append(errs, field.Required(path.Child("url"), "clientConfig.url is required for static manifests"))
	}
	return append(errs, webhook.ValidateCABundle(path.Child("caBundle"), c.CABundle)...)
}

func validateReviewVersions(versions []string, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+strings.Join(reviewVersions, ", "))}
	}
	var errs field.ErrorList
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			errs = append(errs, field.Invalid(path.Index(i), version, "duplicate version"))
			continue
		}
		for _, problem := range validation.IsDNS1035Label(version) {
			errs = append(errs, field.Invalid(path.Index(i), version, problem))
		}
	}
	if !slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions, v) }) {
		errs = append(errs,
			field.Invalid(path, versions, "must include at least one of "+strings.Join(reviewVersions, ", ")))
	}
	return errs
}

func validateMatchConditions(conditions []admissionregistrationv1.MatchCondition, compile compileFunc,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxMatchConditions))
	}
	names := sets.New[string]()
	for i, c := range conditions {
		expressionPath, namePath := path.Index(i).Child("expression"), path.Index(i).Child("name")
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(expressionPath, ""))
		} else if err := compile(text, expression.Condition).Prepare(); err != nil {
			errs = append(errs, field.Invalid(expressionPath, text, err.Error()))
		}
		if c.Name == "" {
			errs = append(errs, field.Required(namePath, ""))
			continue
		}
		for _, problem := range validation.IsQualifiedName(c.Name) {
			errs = append(errs, field.Invalid(namePath, c.Name, problem))
		}
		if names.Has(c.Name) {
			errs = append(errs, field.Duplicate(namePath, c.Name))
		}
		names.Insert(c.Name)
	}
	return errs
}

func validateRule(rule admissionregistrationv1.RuleWithOperations, path *field.Path) field.ErrorList {
	errs := validateWithWildcard(path.Child("operations"), rule.Operations, "operations")
	for i, operation := range rule.Operations {
		errs = append(errs, validateOneOf(path.Child("operations").Index(i), &operation, operations)...)
	}
	errs = append(errs, validateWithWildcard(path.Child("apiGroups"), rule.APIGroups, "API groups")...)
	errs = append(errs, validateWithWildcard(path.Child("apiVersions"), rule.APIVersions, "API versions")...)
	for i, version := range rule.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(rule.Resources, path.Child("resources"))...)
	return append(errs, validateOneOf(path.Child("scope"), rule.Scope, scopes)...)
}

// validateWithWildcard checks a list in which "*" stands for everything, so that it must be the
// only element.
func validateWithWildcard[V ~string](path *field.Path, values []V, what string) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values,
			fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	default:
		return nil
	}
}

// validateResources checks that no resource is also matched by a wildcard in the list. Like
// upstream, it looks only at the wildcards before the resource: the API accepts [pods/status,
// pods/*].
func validateResources(resources []string, path *field.Path) field.ErrorList {
	if len(resources) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	plain := "" // the last one without a subresource
	for i, resource := range resources {
		if resource == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		name, subresource, isSubresource := strings.Cut(resource, "/")
		if !isSubresource {
			plain = resource
			continue
		}
		for _, wildcard := range []string{name + "/*", "*/" + subresource} {
			if slices.Contains(resources[:i], wildcard) {
				errs = append(errs, field.Invalid(path.Index(i), resource,
					fmt.Sprintf("if '%s' is present, must not specify %s", wildcard, resource)))
			}
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if slices.Contains(resources, "*") && plain != "*" {
		errs = append(errs,
			field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
