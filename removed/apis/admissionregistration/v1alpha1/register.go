// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// SchemeGroupVersion is the group and version of the kinds of this package.
	SchemeGroupVersion = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1alpha1"}

	// InitializerConfigurations is the resource in which InitializerConfiguration objects are
	// served.
	InitializerConfigurations = SchemeGroupVersion.WithResource("initializerconfigurations")
)

// AddToScheme makes scheme know the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &InitializerConfiguration{}, &InitializerConfigurationList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
