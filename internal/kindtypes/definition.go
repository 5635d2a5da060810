// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// SchemaAmong returns the schema of a kind that one of some CustomResourceDefinitions defines. Its error is
// resolver.ErrSchemaNotFound if none does, or if the version has no schema.
func SchemaAmong(definitions []apiextensionsv1.CustomResourceDefinitionSpec, kind schema.GroupVersionKind) (*spec.Schema,
	error) {
	for i := range definitions {
		d := &definitions[i]
		if d.Group != kind.Group || d.Names.Kind != kind.Kind {
			continue
		}
		for i := range d.Versions {
			if v := &d.Versions[i]; v.Name == kind.Version {
				stated, err := SchemaOfVersion(v)
				if err != nil {
					return nil, errors.Join(resolver.ErrSchemaNotFound, err)
				}
				return stated, nil
			}
		}
	}
	return nil, fmt.Errorf("%v: %w", kind, resolver.ErrSchemaNotFound)
}

// SchemaOfVersion returns the schema of a version of a CustomResourceDefinition, with the metadata that all
// objects have.
func SchemaOfVersion(v *apiextensionsv1.CustomResourceDefinitionVersion) (*spec.Schema, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", v.Name)
	}
	encoded, err := json.Marshal(v.Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	stated := &spec.Schema{}
	if err := json.Unmarshal(encoded, stated); err != nil {
		return nil, err
	}
	configMap, err := builtInTypes().ResolveSchema(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err != nil {
		return nil, err
	}
	if stated.Properties == nil {
		stated.Properties = map[string]spec.Schema{}
	}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		stated.Properties[name] = configMap.Properties[name]
	}
	return stated, nil
}
