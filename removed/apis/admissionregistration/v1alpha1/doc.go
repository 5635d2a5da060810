// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kind that Kubernetes removed from version v1alpha1 of its API group
// admissionregistration.k8s.io: InitializerConfiguration. The kinds that Kubernetes kept are in
// k8s.io/api.
//
// The package is public: docs/compatibility.md promises its types as long as the API has the version.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.api.admissionregistration.v1alpha1
// +groupName=admissionregistration.k8s.io
package v1alpha1
