// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests validates webhook configurations, policies and bindings from files as the API does those that it
// stores.
//
// The package has no promise of compatibility.
package manifests

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}()

// Validate sets the defaults of an object of admissionregistration.k8s.io/v1, and returns what the API would refuse of
// it.
//
// Source: k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader#defaultAndValidateVWC 594828b1
func Validate(object runtime.Object) field.ErrorList {
	scheme.Default(object)
	internal, err := scheme.ConvertToVersion(object, admissionregistration.SchemeGroupVersion)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("kind"), err)}
	}
	switch o := internal.(type) {
	case *admissionregistration.MutatingWebhookConfiguration:
		return validation.ValidateMutatingWebhookConfiguration(o)
	case *admissionregistration.ValidatingWebhookConfiguration:
		return validation.ValidateValidatingWebhookConfiguration(o)
	case *admissionregistration.MutatingAdmissionPolicy:
		return validation.ValidateMutatingAdmissionPolicy(o)
	case *admissionregistration.MutatingAdmissionPolicyBinding:
		return validation.ValidateMutatingAdmissionPolicyBinding(o)
	case *admissionregistration.ValidatingAdmissionPolicy:
		return validation.ValidateValidatingAdmissionPolicy(o)
	case *admissionregistration.ValidatingAdmissionPolicyBinding:
		return validation.ValidateValidatingAdmissionPolicyBinding(o)
	}
	return field.ErrorList{field.Invalid(field.NewPath("kind"), internal.GetObjectKind().GroupVersionKind().Kind,
		"must be a webhook configuration, a policy or a binding")}
}
