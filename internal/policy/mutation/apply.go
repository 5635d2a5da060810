// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/quantity"
)

// Apply merges a configuration into the object, and reports whether that changed it. It gives the
// configuration the object's apiVersion and kind. An error leaves the object unchanged.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go#ApplyStructuredMergeDiff d8a01e97
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go#dispatchOne 5929d206
func (o *Object) Apply(configuration map[string]any) (changed bool, err error) {
	if len(configuration) == 0 {
		o.setDefaults()
		return false, nil
	}
	if edits, ok := metadataEdits(configuration); ok && o.hasMetadata() {
		return o.editMetadata(edits)
	}
	merged, err := o.merge(configuration)
	if err != nil {
		return false, err
	}
	if _, ok := o.object.(*unstructured.Unstructured); ok {
		return o.replaceWith(merged), nil
	}
	err = o.checkQuantities(func(empty runtime.Object) error { return quantity.Check(configuration, empty) })
	if err != nil {
		return false, fmt.Errorf("unable to convert unstructured object to %v: %w", o.kind, err)
	}
	object, err := o.interfaces.GetObjectConvertor().ConvertToVersion(merged, o.kind.GroupVersion())
	if err != nil {
		return false, err
	}
	return o.replaceWith(object), nil
}

func (o *Object) merge(configuration map[string]any) (runtime.Object, error) {
	converter, err := o.schemas.converter(o.kind)
	if err != nil {
		return nil, err
	}
	content, err := o.Content()
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{Object: maps.Clone(configuration)}
	if patch.Object == nil {
		patch.Object = map[string]any{}
	}
	patch.SetGroupVersionKind(o.kind)
	partial, err := converter.ObjectToTyped(patch)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to convert patch object to typed object: %w", err)
	}
	if found := findAtomics(nil, partial.Schema(), partial.TypeRef(), partial.AsValue()); len(found) > 0 {
		return nil, errors.New("error applying patch: invalid ApplyConfiguration: " +
			"may not mutate atomic arrays, maps or structs: " + strings.Join(found, ", "))
	}
	whole, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: content}, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to convert original object to typed object: %w", err)
	}
	merged, err := whole.Merge(partial)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to merge patch: %w", err)
	}
	object, err := converter.TypedToObject(merged)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to convert typed object to object: %w", err)
	}
	return object, nil
}

// findAtomics returns the paths in a value that the schema treats as one atomic whole. As upstream,
// it doesn't look into the values of maps without named fields.
func findAtomics(path fieldpath.Path, types *smdschema.Schema, ref smdschema.TypeRef, v value.Value) (found []string) {
	atom, ok := types.Resolve(ref)
	if !ok {
		return nil // impossible: the value has been validated
	}
	switch {
	case atom.Map != nil && v.IsMap():
		if atom.Map.ElementRelationship == smdschema.Atomic {
			found = append(found, path.String())
		}
		v.AsMap().Iterate(func(key string, v value.Value) bool {
			if field, ok := atom.Map.FindField(key); ok {
				element := fieldpath.PathElement{FieldName: &key}
				found = append(found, findAtomics(append(path, element), types, field.Type, v)...)
			}
			return true
		})
	case atom.List != nil && v.IsList():
		if atom.List.ElementRelationship == smdschema.Atomic {
			found = append(found, path.String())
		}
		list := v.AsList()
		for i := range list.Length() {
			element := fieldpath.PathElement{Index: &i}
			found = append(found, findAtomics(append(path, element), types, atom.List.ElementType, list.At(i))...)
		}
	}
	return found
}
