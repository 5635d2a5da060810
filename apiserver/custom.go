// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// strategies returns the strategies with which the registry of a custom resource, or of its status,
// prepares and validates objects.
//
// Source: k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go#getOrCreateServingInfoFor 5a36f2d3
func (s *customSchemas) strategies(resource schema.GroupVersionResource, kind schema.GroupVersionKind,
	subresource string) (rest.RESTCreateStrategy, rest.RESTUpdateStrategy, error) {
	definitions := s.definitions.Load()
	if definitions == nil {
		return nil, nil, fmt.Errorf("%s: the server has no custom resources", resource.GroupResource())
	}
	definition, err := (*definitions).Get(resource.GroupResource().String())
	if err != nil {
		return nil, nil, err
	}
	internal := &apiextensions.CustomResourceDefinitionVersion{}
	for i := range definition.Spec.Versions {
		if v := &definition.Spec.Versions[i]; v.Name == resource.Version {
			if err := extensionsv1.Convert_v1_CustomResourceDefinitionVersion_To_apiextensions_CustomResourceDefinitionVersion(
				v, internal, nil); err != nil {
				return nil, nil, err
			}
		}
	}
	var properties *apiextensions.JSONSchemaProps
	if internal.Schema != nil {
		properties = internal.Schema.OpenAPIV3Schema
	}
	validator, _, err := validation.NewSchemaValidator(properties)
	if err != nil {
		return nil, nil, err
	}
	var status *apiextensions.CustomResourceSubresourceStatus
	var scale *apiextensions.CustomResourceSubresourceScale
	if internal.Subresources != nil {
		status, scale = internal.Subresources.Status, internal.Subresources.Scale
	}
	var statusValidator validation.SchemaValidator
	if status != nil && properties != nil {
		if p, ok := properties.Properties["status"]; ok {
			if statusValidator, _, err = validation.NewSchemaValidator(&p); err != nil {
				return nil, nil, err
			}
		}
	}
	var selectable []extensionsv1.SelectableField
	for _, field := range internal.SelectableFields {
		selectable = append(selectable, extensionsv1.SelectableField{JSONPath: field.JSONPath})
	}
	strategy := customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(),
		definition.Spec.Scope == extensionsv1.NamespaceScoped, kind, validator, statusValidator,
		s.schema(definition, resource.Version), status, scale, selectable)
	switch {
	case subresource == "":
		return strategy, strategy, nil
	case subresource == "status" && status != nil:
		return nil, customresource.NewStatusStrategy(strategy), nil
	}
	return nil, nil, fmt.Errorf("%s have no subresource %s", resource.GroupResource(), subresource)
}
