// Package openapi says what the kinds of the packages of apis look like in OpenAPI.
//
// The package is public: docs/compatibility.md says what is promised of the packages below apis.
package openapi

import (
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Definitions are the models by name. The generator, given only our packages, writes references to
// Kubernetes' types by their Go names. Here they have the names under which Kubernetes' own
// definitions have them.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := GetOpenAPIDefinitions(func(name string) spec.Ref { return ref(modelName(name)) })
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
