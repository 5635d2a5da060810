// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
)

// admissionStrategies are what the API does before it stores a new object of a kind of admissionregistration.k8s.io.
// Without an authorizer they don't ask whether the user may read a policy's params.
var admissionStrategies = map[string]rest.RESTCreateStrategy{
	"MutatingAdmissionPolicy":          mutatingadmissionpolicy.NewStrategy(nil, nil),
	"MutatingAdmissionPolicyBinding":   mutatingadmissionpolicybinding.NewStrategy(nil, nil, nil),
	"MutatingWebhookConfiguration":     mutatingwebhookconfiguration.Strategy,
	"ValidatingAdmissionPolicy":        validatingadmissionpolicy.NewStrategy(nil, nil),
	"ValidatingAdmissionPolicyBinding": validatingadmissionpolicybinding.NewStrategy(nil, nil, nil),
	"ValidatingWebhookConfiguration":   validatingwebhookconfiguration.Strategy,
}

// Refusal returns the error with which the API refuses to create a webhook configuration, a policy or a binding, whoever
// asks. It is nil if the API doesn't, and for objects of other kinds and of versions that aren't known.
func Refusal(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	strategy := admissionStrategies[kind.Kind]
	if kind.Group != "admissionregistration.k8s.io" || strategy == nil || !legacyscheme.Scheme.Recognizes(kind) {
		return nil
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", kind.Kind, object.GetName(), err)
	}
	decoder := legacyscheme.Codecs.UniversalDecoder(schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	decoded, err := runtime.Decode(decoder, data)
	if err != nil {
		return fmt.Errorf("decoding %s %s: %w", kind.Kind, object.GetName(), err)
	}
	stated, err := meta.Accessor(decoded)
	if err != nil {
		return err
	}
	stated.SetResourceVersion("")
	rest.FillObjectMetaSystemFields(stated)
	ctx = request.WithRequestInfo(request.WithNamespace(ctx, ""), &request.RequestInfo{IsResourceRequest: true, Verb: "create",
		APIGroup: kind.Group, APIVersion: kind.Version})
	return rest.BeforeCreate(strategy, ctx, decoded)
}
