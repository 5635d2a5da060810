// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apis holds the API types that are Gatehouse's own:
//
//   - decisions/v1alpha1: Decision, the verdict on a request, and the reasons
//   - openapi: the types in OpenAPI
//
// The types are a library of k8s.io/api's size. The API server serves them (package internal/decision/api).
//
// The zz_generated files come from the types, by the tools of the Kubernetes version that go.mod
// requires:
//
//	go generate ./apis ./removed/apis
//
// The package is public: docs/compatibility.md says what is promised of the packages below apis.
package apis

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen --go-header-file=/dev/null --output-file=zz_generated.deepcopy.go ./decisions/v1alpha1
//go:generate go run k8s.io/kube-openapi/cmd/openapi-gen --go-header-file=/dev/null --output-dir=openapi --output-pkg=gatehouse.dev/apis/openapi --output-file=zz_generated.openapi.go --output-model-name-file=zz_generated.model_name.go --report-filename=/dev/null ./decisions/v1alpha1
