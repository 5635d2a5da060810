// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

// checkStatic returns an error if an object has something that is allowed in the API, but not in a file: a service,
// params, or a reference between files and the API.
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
	default:
		var errs field.ErrorList
		for i, w := range Webhooks(object) {
			path := field.NewPath("webhooks").Index(i).Child("clientConfig")
			if w.ClientConfig.Service != nil {
				errs = append(errs, field.Forbidden(path.Child("service"),
					"clientConfig.service is not supported for static manifests; use clientConfig.url instead"))
			}
			errs = append(errs, webhook.ValidateCABundle(path.Child("caBundle"), w.ClientConfig.CABundle)...)
		}
		if len(errs) > 0 {
			return fmt.Errorf("%s %q: %w", KindOf(object), object.GetName(), errs.ToAggregate())
		}
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
