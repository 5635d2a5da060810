// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the kind that Kubernetes removed from version v1beta1 of the API group policy:
// PodSecurityPolicy. The group's other kinds are in k8s.io/api/policy.
//
// The package is public: docs/compatibility.md promises its types as long as the API has the version.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.api.policy.v1beta1
// +groupName=policy
package v1beta1
