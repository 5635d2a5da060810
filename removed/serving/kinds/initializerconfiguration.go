// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
)

func initializerConfigurationStore() *genericregistry.Store {
	resource := admissionregistrationv1alpha1.InitializerConfigurations.GroupResource()
	s := initializerConfigurationStrategy{newStrategy()}
	return &genericregistry.Store{
		NewFunc: func() runtime.Object {
			return &admissionregistrationv1alpha1.InitializerConfiguration{}
		},
		NewListFunc: func() runtime.Object {
			return &admissionregistrationv1alpha1.InitializerConfigurationList{}
		},
		DefaultQualifiedResource: resource,
		SingularQualifiedResource: admissionregistrationv1alpha1.SchemeGroupVersion.WithResource(
			"initializerconfiguration").GroupResource(),
		CreateStrategy: s,
		UpdateStrategy: s,
		DeleteStrategy: s,
		TableConvertor: rest.NewDefaultTableConvertor(resource),
	}
}

type initializerConfigurationStrategy struct{ strategy }

func (initializerConfigurationStrategy) NamespaceScoped() bool { return false }

// AllowUnconditionalUpdate is false, as for the configurations of webhooks: who replaces one says
// which state of it he has seen.
func (initializerConfigurationStrategy) AllowUnconditionalUpdate(context.Context) bool { return false }

func (initializerConfigurationStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(*admissionregistrationv1alpha1.InitializerConfiguration).Generation = 1
}

func (initializerConfigurationStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	c, stored := obj.(*admissionregistrationv1alpha1.InitializerConfiguration),
		old.(*admissionregistrationv1alpha1.InitializerConfiguration)
	c.Generation = stored.Generation
	if !apiequality.Semantic.DeepEqual(c.Initializers, stored.Initializers) {
		c.Generation++
	}
}

func (initializerConfigurationStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	c := obj.(*admissionregistrationv1alpha1.InitializerConfiguration)
	all := apimachineryvalidation.ValidateObjectMeta(&c.ObjectMeta, false, apimachineryvalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	return append(all, validateInitializers(c.Initializers, field.NewPath("initializers"))...)
}

func (initializerConfigurationStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	c, stored := obj.(*admissionregistrationv1alpha1.InitializerConfiguration),
		old.(*admissionregistrationv1alpha1.InitializerConfiguration)
	all := apimachineryvalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &stored.ObjectMeta, field.NewPath("metadata"))
	return append(all, validateInitializers(c.Initializers, field.NewPath("initializers"))...)
}

// validateInitializers is the validation of Kubernetes 1.13
// (pkg/apis/admissionregistration/validation), with its messages. That took the same name twice in
// a configuration; apply can't, as names are what it tells the initializers by.
func validateInitializers(initializers []admissionregistrationv1alpha1.Initializer, path *field.Path) field.ErrorList {
	var all field.ErrorList
	names := sets.New[string]()
	for i, initializer := range initializers {
		path := path.Index(i)
		all = append(all, utilvalidation.IsFullyQualifiedName(path.Child("name"), initializer.Name)...)
		if names.Has(initializer.Name) {
			all = append(all, field.Duplicate(path.Child("name"), initializer.Name))
		}
		names.Insert(initializer.Name)
		for j := range initializer.Rules {
			all = append(all, validateInitializerRule(&initializer.Rules[j], path.Child("rules").Index(j))...)
		}
	}
	return all
}

func validateInitializerRule(rule *admissionregistrationv1alpha1.Rule, path *field.Path) field.ErrorList {
	// The core group's name is empty.
	all := validateWildcard(rule.APIGroups, path.Child("apiGroups"), "API groups")
	all = append(all, validateWildcard(rule.APIVersions, path.Child("apiVersions"), "API versions")...)
	all = append(all, validateNotEmpty(rule.APIVersions, path.Child("apiVersions"))...)
	all = append(all, validateWildcard(rule.Resources, path.Child("resources"), "resources")...)
	all = append(all, validateNotEmpty(rule.Resources, path.Child("resources"))...)
	for i, resource := range rule.Resources {
		if strings.Contains(resource, "/") {
			all = append(all,
				field.Invalid(path.Child("resources").Index(i), resource, "must not specify subresources"))
		}
	}
	return all
}

// validateWildcard wants a list that is not empty, and a "*" to be alone in it.
func validateWildcard(list []string, path *field.Path, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(list) > 1 && slices.Contains(list, "*"):
		return field.ErrorList{field.Invalid(path, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func validateNotEmpty(list []string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, element := range list {
		if element == "" {
			all = append(all, field.Required(path.Index(i), ""))
		}
	}
	return all
}
