// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi describes the kinds of the packages below removed/apis in OpenAPI.
//
// The package is public: docs/compatibility.md says what is promised of the packages below removed/apis.
package openapi

import (
	"k8s.io/kube-openapi/pkg/common"

	"gatehouse.dev/apis/openapi"
)

// Definitions returns the models by name.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return openapi.Named(GetOpenAPIDefinitions, ref)
}
