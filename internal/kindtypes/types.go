// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	k8sscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"gatehouse.dev/internal/expression"
)

// maxTypesToCheck bounds the kinds that one rule's expressions are checked with.
const maxTypesToCheck = 10

// A Mapper knows the kinds of resources.
type Mapper interface {
	// KindsFor returns the kinds of a resource.
	KindsFor(schema.GroupVersionResource) ([]schema.GroupVersionKind, error)
	// Reset forgets what the mapper remembers, for it may not know a new kind.
	Reset()
}

// Types checks expressions with the types of kinds. It is for one goroutine.
type Types struct {
	// NeverChange reports whether the schemas of custom kinds never change, so that their types can be kept.
	NeverChange bool

	custom resolver.SchemaResolver
	mapper Mapper
	// typed are the checkers of kinds whose schemas never change.
	typed map[typedKey]*expression.TypeChecker
}

type typedKey struct {
	object, params schema.GroupVersionKind
}

// builtInTypes returns the schemas of Kubernetes' own kinds. It takes a while, and memory that
// servers without policies don't need.
var builtInTypes = sync.OnceValue(func() resolver.SchemaResolver {
	return resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, k8sscheme.Scheme,
		apiextensionsscheme.Scheme)
})

// New returns the types of Kubernetes' own kinds, and of those that custom knows.
func New(custom resolver.SchemaResolver, mapper Mapper) *Types {
	return &Types{custom: custom, mapper: mapper, typed: map[typedKey]*expression.TypeChecker{}}
}

// Check returns what is wrong with the policy's validations, in the words of the policy's status.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go#TypeChecker.Check a307f79a
func (t *Types) Check(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (
	warnings []admissionregistrationv1.ExpressionWarning) {
	var texts, fields []string
	path := field.NewPath("spec", "validations")
	for i, v := range policy.Spec.Validations {
		texts, fields = append(texts, v.Expression), append(fields, path.Index(i).Child("expression").String())
		if v.MessageExpression != "" {
			texts = append(texts, v.MessageExpression)
			fields = append(fields, path.Index(i).Child("messageExpression").String())
		}
	}
	messages := make([][]string, len(texts))
	params := paramsOf(policy)
	kinds, _ := t.kinds(policy)
	for _, kind := range kinds {
		typed, err := t.typedFor(kind, params)
		if err != nil {
			if !errors.Is(err, resolver.ErrSchemaNotFound) {
				utilruntime.HandleError(fmt.Errorf("types of policy %q: %w", policy.Name, err))
			}
			continue
		}
		for i, err := range typed.Check(policy.Spec.Variables, texts...) {
			if err != nil {
				messages[i] = append(messages[i], fmt.Sprintf("%v: %v\n", kind, err))
			}
		}
	}
	for i, texts := range messages {
		if len(texts) > 0 {
			warnings = append(warnings, admissionregistrationv1.ExpressionWarning{FieldRef: fields[i],
				Warning: strings.Join(texts, "\n")})
		}
	}
	return warnings
}

func paramsOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) schema.GroupVersionKind {
	if policy.Spec.ParamKind == nil {
		return schema.GroupVersionKind{}
	}
	version, err := schema.ParseGroupVersion(policy.Spec.ParamKind.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return version.WithKind(policy.Spec.ParamKind.Kind)
}

// typedFor returns the checker of expressions on a kind. Params of an unknown kind may have any
// type.
func (t *Types) typedFor(kind, params schema.GroupVersionKind) (*expression.TypeChecker, error) {
	key := typedKey{kind, params}
	if typed := t.typed[key]; typed != nil {
		return typed, nil
	}
	object, fixed, err := t.typeOf(kind)
	if err != nil {
		return nil, err
	}
	var paramsType *apiservercel.DeclType
	if !params.Empty() {
		var known bool
		if paramsType, known, err = t.typeOf(params); err != nil {
			paramsType = nil
		}
		fixed = fixed && known
	}
	typed, err := expression.NewTypeChecker(object, paramsType, !params.Empty())
	if err == nil && fixed {
		t.typed[key] = typed
	}
	return typed, err
}

// typeOf returns the type of a kind's objects, and reports whether it never changes.
func (t *Types) typeOf(kind schema.GroupVersionKind) (declared *apiservercel.DeclType, fixed bool, err error) {
	stated, fixed, err := t.schemaOf(kind)
	if err != nil {
		return nil, false, err
	}
	if declared = common.SchemaDeclType(&celopenapi.Schema{Schema: stated}, true); declared != nil {
		declared = declared.MaybeAssignTypeName(fmt.Sprintf("%s%d", kind.Kind, time.Now().Nanosecond()))
	}
	return declared, fixed, nil
}

// schemaOf returns the schema of a kind's objects, and reports whether it never changes.
func (t *Types) schemaOf(kind schema.GroupVersionKind) (stated *spec.Schema, fixed bool, err error) {
	stated, err = builtInTypes().ResolveSchema(kind)
	fixed = err == nil
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		stated, err = t.custom.ResolveSchema(kind)
		fixed = err == nil && t.NeverChange
	}
	return stated, fixed, err
}

// kinds returns the kinds that the policy's rules name, in order, and reports whether these are all
// of the policy's kinds: a rule with a wildcard or a subresource may have more.
func (t *Types) kinds(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (
	kinds []schema.GroupVersionKind, all bool) {
	if policy.Spec.MatchConstraints == nil {
		return nil, false
	}
	found := map[schema.GroupVersionKind]bool{}
	refreshed := false // once a policy, as the mapper may not know a new kind
	ask := func(resource schema.GroupVersionResource) []schema.GroupVersionKind {
		kinds, err := t.mapper.KindsFor(resource)
		if err != nil && !refreshed {
			refreshed = true
			t.mapper.Reset()
			kinds, _ = t.mapper.KindsFor(resource)
		}
		return kinds
	}
	all = true
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		whole, more := t.kindsOf(&rule.Rule, ask, found)
		if all = all && whole; !more {
			break
		}
	}
	for kind := range found {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	})
	return kinds, all
}

// sameKindSubresources are the subresources whose objects have the kind of their resource.
var sameKindSubresources = []string{"status", "ephemeralcontainers", "resize"}

// kindsOf adds a rule's kinds to found. It reports whether these are all of the rule's kinds. more
// is false if there are too many.
func (t *Types) kindsOf(rule *admissionregistrationv1.Rule,
	ask func(schema.GroupVersionResource) []schema.GroupVersionKind, found map[schema.GroupVersionKind]bool) (
	whole, more bool) {
	wild := func(name string) bool { return strings.Contains(name, "*") }
	if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
		return false, true
	}
	whole = true
	known := map[string]bool{} // resources, as a rule for several groups names some that one doesn't have
	count := 0
	for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(rule.Resources)) {
				if strings.ContainsAny(resource, "*/") {
					_, subresource, _ := strings.Cut(resource, "/")
					whole = whole && slices.Contains(sameKindSubresources, subresource)
					continue
				}
				known[resource] = known[resource]
				for _, kind := range ask(schema.GroupVersionResource{Group: group, Version: version,
					Resource: resource}) {
					if kind.Empty() {
						continue
					}
					found[kind], known[resource] = true, true
					if count++; count == maxTypesToCheck {
						return false, false
					}
				}
			}
		}
	}
	for _, hasKind := range known {
		whole = whole && hasKind
	}
	return whole, true
}
