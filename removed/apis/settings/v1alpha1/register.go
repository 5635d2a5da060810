// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definition is the CustomResourceDefinition of PodPresets, as YAML. A cluster needs it if its API server isn't
// Gatehouse's.
//
//go:embed podpresets.yaml
var Definition []byte

var (
	// SchemeGroupVersion is the group and version of the kinds of this package.
	SchemeGroupVersion = schema.GroupVersion{Group: "settings.k8s.io", Version: "v1alpha1"}

	// PodPresets is the resource in which PodPreset objects are served.
	PodPresets = SchemeGroupVersion.WithResource("podpresets")
)

// AddToScheme makes scheme know the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &PodPreset{}, &PodPresetList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
