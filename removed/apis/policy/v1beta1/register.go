// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// SchemeGroupVersion is the group and version of the kinds of this package.
	SchemeGroupVersion = schema.GroupVersion{Group: "policy", Version: "v1beta1"}

	// PodSecurityPolicies is the resource in which PodSecurityPolicy objects are served.
	PodSecurityPolicies = SchemeGroupVersion.WithResource("podsecuritypolicies")
)

// AddToScheme makes scheme know the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &PodSecurityPolicy{}, &PodSecurityPolicyList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
