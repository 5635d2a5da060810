// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	extensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// customSchemas finds the fields of custom resources that their definitions don't have. It may be
// used concurrently.
type customSchemas struct {
	// definitions is nil until the server of custom resources is built.
	definitions atomic.Pointer[extensionslisters.CustomResourceDefinitionLister]

	mu    sync.Mutex
	known map[string]customSchema // by the definition's name and the version
}

// customSchema is the schema of a definition as it was.
type customSchema struct {
	of     *extensionsv1.CustomResourceDefinition
	schema *structuralschema.Structural
}

// maxSchemas bounds the schemas that are held, of definitions that come and go.
const maxSchemas = 1000

// unknownFields implements plugin.Env's UnknownFields.
func (s *customSchemas) unknownFields(resource schema.GroupVersionResource,
	object *unstructured.Unstructured) []string {
	definitions := s.definitions.Load()
	if definitions == nil {
		return nil
	}
	definition, err := (*definitions).Get(resource.GroupResource().String())
	if err != nil || definition.Spec.PreserveUnknownFields {
		return nil
	}
	structural := s.schema(definition, resource.Version)
	if structural == nil {
		return nil
	}
	return pruning.PruneWithOptions(object.DeepCopy().Object, structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

// FieldsBeside returns the names that a field of a custom resource may have in the place of a path that UnknownFields
// returns; nil if they aren't known.
func (s *Server) FieldsBeside(resource schema.GroupVersionResource, path string) []string {
	definitions := s.schemas.definitions.Load()
	if definitions == nil {
		return nil
	}
	definition, err := (*definitions).Get(resource.GroupResource().String())
	if err != nil {
		return nil
	}
	in := s.schemas.schema(definition, resource.Version)
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		if in == nil {
			return nil
		}
		name, _, _ := strings.Cut(part, "[")
		if property, ok := in.Properties[name]; ok {
			in = &property
		} else if in.AdditionalProperties != nil {
			in = in.AdditionalProperties.Structural
		} else {
			return nil
		}
		for range strings.Count(part, "[") {
			if in == nil || in.Items == nil {
				return nil
			}
			in = in.Items
		}
	}
	if in == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(in.Properties))
}

// schema returns the schema of a version; nil if it has none.
func (s *customSchemas) schema(definition *extensionsv1.CustomResourceDefinition,
	version string) *structuralschema.Structural {
	key := definition.Name + "/" + version
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[key]; ok && known.of == definition {
		return known.schema
	}
	structural := structuralOf(definition, version)
	if s.known == nil || len(s.known) >= maxSchemas {
		s.known = map[string]customSchema{}
	}
	s.known[key] = customSchema{definition, structural}
	return structural
}

// structuralOf makes the schema of a version, as the server of custom resources does.
//
// Source: k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go#getOrCreateServingInfoFor 5a36f2d3
func structuralOf(definition *extensionsv1.CustomResourceDefinition, version string) *structuralschema.Structural {
	validation, err := apihelpers.GetSchemaForVersion(definition, version)
	if err != nil || validation == nil || validation.OpenAPIV3Schema == nil {
		return nil
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := extensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(validation,
		internal, nil); err != nil {
		return nil
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil
	}
	return structural
}
