// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"

	"gatehouse.dev/plugin"
)

// AwaitDescribed returns once the server's OpenAPI documents, by which policies apply configurations,
// describe the served versions of a custom resource as its definition does, or once ctx ends, with its
// error. A server publishes them up to two seconds after the definition.
func (s *Server) AwaitDescribed(ctx context.Context, definition *extensionsv1.CustomResourceDefinition) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.loopback)
	if err != nil {
		return err
	}
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		want, err := schemasOf(definition, version.Name)
		if err != nil {
			return err
		}
		path := "apis/" + definition.Spec.Group + "/" + version.Name
		var failed error
		if err := plugin.Until(ctx, func() bool {
			var has map[string]any
			has, failed = publishedSchemas(client, path)
			return failed == nil && describes(has, want)
		}); err != nil {
			return errors.Join(err, failed)
		}
	}
	return nil
}

// schemasOf returns the schemas that the document of a definition's version has.
//
// Source: k8s.io/apiextensions-apiserver/pkg/controller/openapiv3/controller.go#buildV3Spec 1e1b642e
func schemasOf(definition *extensionsv1.CustomResourceDefinition, version string) (map[string]any, error) {
	document, err := builder.BuildOpenAPIV3(definition, version, builder.Options{
		IncludeSelectableFields: utilfeature.DefaultFeatureGate.Enabled(features.CustomResourceFieldSelectors)})
	if err != nil {
		return nil, fmt.Errorf("schema of version %s: %w", version, err)
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return schemasIn(text)
}

// publishedSchemas returns the schemas in one of the documents that are served now. They are nil if
// there is no such document.
func publishedSchemas(client discovery.OpenAPIV3SchemaInterface, path string) (map[string]any, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	document, ok := paths[path]
	if !ok {
		return nil, nil
	}
	text, err := document.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	return schemasIn(text)
}

func schemasIn(document []byte) (map[string]any, error) {
	var content struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	err := json.Unmarshal(document, &content)
	return content.Components.Schemas, err
}

// describes reports whether all that is wanted is there.
func describes(has, want map[string]any) bool {
	for name, schema := range want {
		if !reflect.DeepEqual(has[name], schema) {
			return false
		}
	}
	return true
}
