// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apis holds the API types that Kubernetes has dropped, in the versions in which it last served them. Go
// types, JSON names, defaults and models are as manifests and clients of those days expect.
//
//   - admissionregistration/v1alpha1: InitializerConfiguration, served by Kubernetes until 1.13
//   - policy/v1beta1: PodSecurityPolicy, served by Kubernetes until 1.24
//   - settings/v1alpha1: PodPreset, served by Kubernetes until 1.19
//   - openapi: the types in OpenAPI
//   - initializers: the names that initializers use, besides the kind
//
// The API server serves the types (package removed/serving/kinds), and the plugins of the same names read them.
// The zz_generated files are made as those of gatehouse.dev/apis.
//
// The package is public: docs/compatibility.md says what is promised of the packages below removed/apis.
package apis

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen --go-header-file=/dev/null --output-file=zz_generated.deepcopy.go ./admissionregistration/v1alpha1 ./policy/v1beta1 ./settings/v1alpha1
//go:generate go run k8s.io/kube-openapi/cmd/openapi-gen --go-header-file=/dev/null --output-dir=openapi --output-pkg=gatehouse.dev/removed/apis/openapi --output-file=zz_generated.openapi.go --output-model-name-file=zz_generated.model_name.go --report-filename=/dev/null ./admissionregistration/v1alpha1 ./policy/v1beta1 ./settings/v1alpha1
