// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is version v1alpha1 of the API group settings.k8s.io: the kind PodPreset.
//
// The package is public: docs/compatibility.md promises its types as long as the API has the version.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.api.settings.v1alpha1
// +groupName=settings.k8s.io
package v1alpha1
