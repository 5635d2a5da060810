// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/internal/configfile"
)

// configKinds holds the kinds and versions of the plugin's configuration. All have the same fields.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota f1cf0416
var configKinds = []configfile.Meta{
	{APIVersion: "apiserver.config.k8s.io/v1", Kind: "ResourceQuotaConfiguration"},
	{APIVersion: "resourcequota.admission.k8s.io/v1beta1", Kind: "Configuration"},
	{APIVersion: "resourcequota.admission.k8s.io/v1alpha1", Kind: "Configuration"},
}

// configuration holds the configuration as it is written.
type configuration struct {
	configfile.Meta
	// LimitedResources are resources that can't be used without a quota that limits them.
	LimitedResources []LimitedResource `json:"limitedResources"`
}

// LoadConfig reads the plugin's configuration, as YAML or JSON: a ResourceQuotaConfiguration of
// apiserver.config.k8s.io/v1, or a Configuration of resourcequota.admission.k8s.io/v1beta1 or
// v1alpha1. A nil config limits nothing. An unknown field is an error. Scopes are checked like
// those of a ResourceQuota. Upstream doesn't check them, and if one is invalid it stops enforcing
// the whole configuration.
func LoadConfig(config io.Reader) ([]LimitedResource, error) {
	if config == nil {
		return nil, nil
	}
	document, err := configfile.Document(config)
	if err != nil {
		return nil, err
	}
	var meta configfile.Meta
	// If this fails, meta is empty, and the error below says what it must be.
	_ = configfile.Lenient(document, &meta)
	if !slices.Contains(configKinds, meta) {
		var kinds []string
		for _, k := range configKinds {
			kinds = append(kinds, k.Kind+" in apiVersion "+k.APIVersion)
		}
		return nil, fmt.Errorf("apiVersion %q, kind %q: must be kind %s", meta.APIVersion, meta.Kind,
			strings.Join(kinds, ", or "))
	}
	var content configuration
	if err := configfile.Strict(document, &content); err != nil {
		return nil, err
	}
	var all field.ErrorList
	for i := range content.LimitedResources {
		all = append(all, content.LimitedResources[i].validate(field.NewPath("limitedResources").Index(i))...)
	}
	if len(all) > 0 {
		return nil, all.ToAggregate()
	}
	return content.LimitedResources, nil
}

// validate checks what upstream checks, and the scopes as the API checks a scopeSelector.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation#ValidateConfiguration 84bcbf90
// Source: k8s.io/kubernetes/pkg/apis/core/validation#validateScopedResourceSelectorRequirement f980e5a0
func (l *LimitedResource) validate(path *field.Path) field.ErrorList {
	var all field.ErrorList
	if l.Resource == "" {
		all = append(all, field.Required(path.Child("resource"), ""))
	}
	for i := range l.MatchScopes {
		all = append(all, validateScope(&l.MatchScopes[i], path.Child("matchScopes").Index(i))...)
	}
	return all
}

func validateScope(s *corev1.ScopedResourceSelectorRequirement, path *field.Path) field.ErrorList {
	var all field.ErrorList
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		// Upstream ignores the operator of these, so it may be omitted.
		if s.Operator != corev1.ScopeSelectorOpExists && s.Operator != "" {
			all = append(all, field.Invalid(path.Child("operator"), s.Operator,
				fmt.Sprintf("must be 'Exists' for scope %s", s.ScopeName)))
		}
	case corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass:
		switch s.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(s.Values) == 0 {
				all = append(all, field.Required(path.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
			return all
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		default:
			all = append(all, field.Invalid(path.Child("operator"), s.Operator, "not a valid selector operator"))
		}
	default:
		return append(all, field.Invalid(path.Child("scopeName"), s.ScopeName, "unsupported scope"))
	}
	if len(s.Values) != 0 {
		all = append(all, field.Invalid(path.Child("values"), s.Values,
			"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
	}
	return all
}
