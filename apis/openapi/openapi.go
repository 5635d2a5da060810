// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi describes the kinds of package decisions in OpenAPI.
//
// The package is public: docs/compatibility.md says what is promised of the packages below apis.
package openapi

import (
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Definitions returns the models by name. The generator knows only our packages, and refers to
// Kubernetes' types by their Go names. Definitions replaces these by the names in Kubernetes' own
// definitions.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return Named(GetOpenAPIDefinitions, ref)
}

// Named does the same for the models of another package that the generator made.
func Named(generated common.GetOpenAPIDefinitions, ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := generated(func(name string) spec.Ref { return ref(modelName(name)) })
	for _, definition := range definitions {
		for i, name := range definition.Dependencies {
			definition.Dependencies[i] = modelName(name)
		}
	}
	return definitions
}

// modelName turns k8s.io/api/core/v1.Volume into io.k8s.api.core.v1.Volume.
func modelName(name string) string {
	if strings.Contains(name, "/") {
		return util.ToRESTFriendlyName(name)
	}
	return name
}
