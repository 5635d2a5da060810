// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"gatehouse.dev/internal/kindtypes"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
)

// definedKinds knows the kinds that the server's CustomResourceDefinitions define. It implements
// resolver.SchemaResolver. The server's OpenAPI documents have them only a while after they are stored.
type definedKinds struct {
	definitions []apiextensionsv1.CustomResourceDefinitionSpec
}

// ResolveSchema implements resolver.SchemaResolver.
func (d *definedKinds) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	return kindtypes.SchemaAmong(d.definitions, kind)
}

// A policyDocument is a policy with its document.
type policyDocument struct {
	input.Document
	policy *admissionregistrationv1.ValidatingAdmissionPolicy
}

// PolicyWarnings returns warnings about ValidatingAdmissionPolicies among documents: which fields
// their expressions read that none of their objects can have. It skips policies of another cluster's
// snapshot, and policies that can't be read.
func (r *Reviewer) PolicyWarnings(ctx context.Context, documents []input.Document) ([]string, error) {
	_, documents = live.Parse(documents)
	var policies []policyDocument
	for _, d := range documents {
		kind := d.Object.GroupVersionKind()
		if kind.Group != admissionregistrationv1.GroupName || kind.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{} // older versions have the same fields
		if runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, policy) != nil {
			continue
		}
		policies = append(policies, policyDocument{d, policy})
	}
	if len(policies) == 0 {
		return nil, nil
	}
	stored, err := listAs[apiextensionsv1.CustomResourceDefinition](ctx, r, definitions)
	if err != nil {
		return nil, err
	}
	r.defined.definitions = nil
	for i := range stored {
		r.defined.definitions = append(r.defined.definitions, stored[i].Spec)
	}
	var warnings []string
	for _, p := range policies {
		for _, unknown := range r.types.UnknownFields(p.policy) {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %s", p.Source, input.Named(p.Object), unknown))
		}
	}
	return warnings, nil
}
