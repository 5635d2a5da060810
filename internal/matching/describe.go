// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Describe returns the request as webhooks and expressions see it: about kind and resource, and
// without uid and objects. Its options are the request's own object.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/condition.go#CreateAdmissionRequest 894a711e
func (r *Request) Describe(kind schema.GroupVersionKind,
	resource schema.GroupVersionResource) *admissionv1.AdmissionRequest {
	requestKind, requestResource, dryRun := metav1.GroupVersionKind(r.GetKind()),
		metav1.GroupVersionResource(r.GetResource()), r.IsDryRun()
	described := &admissionv1.AdmissionRequest{
		Kind:               metav1.GroupVersionKind(kind),
		Resource:           metav1.GroupVersionResource(resource),
		SubResource:        r.GetSubresource(),
		RequestKind:        &requestKind,
		RequestResource:    &requestResource,
		RequestSubResource: r.GetSubresource(),
		Name:               r.GetName(),
		Namespace:          r.GetNamespace(),
		Operation:          admissionv1.Operation(r.GetOperation()),
		DryRun:             &dryRun,
		Options:            runtime.RawExtension{Object: r.GetOperationOptions()},
	}
	if user := r.GetUserInfo(); user != nil {
		described.UserInfo = authenticationv1.UserInfo{Username: user.GetName(), UID: user.GetUID(),
			Groups: user.GetGroups()}
		if extra := user.GetExtra(); len(extra) > 0 {
			described.UserInfo.Extra = make(map[string]authenticationv1.ExtraValue, len(extra))
			for key, values := range extra {
				described.UserInfo.Extra[key] = values
			}
		}
	}
	return described
}
