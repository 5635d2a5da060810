// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is version v1alpha1 of the API group decisions.gatehouse.dev. Its kind is Decision:
// the verdict on a request, and the reasons. The server records decisions, serves them by its API and
// writes one to each line of the decision log. Commands such as why print them.
//
// The package is public: docs/compatibility.md promises its types as long as the API has the version.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.gatehouse.decisions.v1alpha1
// +groupName=decisions.gatehouse.dev
package v1alpha1
