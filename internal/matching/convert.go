// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// WithKind returns the object with its kind set. Decoded objects have it set already; objects from
// a cache may not. If a copy is necessary, it is a shallow one.
func WithKind(object runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	if !object.GetObjectKind().GroupVersionKind().Empty() {
		return object
	}
	value := reflect.ValueOf(object)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return object
	}
	named := reflect.New(value.Type().Elem())
	named.Elem().Set(value.Elem())
	object = named.Interface().(runtime.Object)
	object.GetObjectKind().SetGroupVersionKind(kind)
	return object
}

// Convert returns the object in another version. The result may share memory with the original.
// Custom resources are converted directly, other objects by way of the server's internal version.
func Convert(object runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object,
	error) {
	if object.GetObjectKind().GroupVersionKind() == kind {
		return object, nil
	}
	if _, ok := object.(*unstructured.Unstructured); ok {
		converted := &unstructured.Unstructured{}
		converted.SetGroupVersionKind(kind)
		if err := o.GetObjectConvertor().Convert(object, converted, nil); err != nil {
			return nil, err
		}
		return converted, nil
	}
	internal, err := convertToInternal(object, o)
	if err != nil {
		return nil, err
	}
	return convertFrom(internal, kind, o)
}

// ConvertOver returns the object in another version, with those fields of base that the object's own version
// lacks. Base isn't changed. The result may share memory with both.
//
// Kubernetes converts the object over base. Here the fields are looked for instead: a conversion that adds to
// what is there, as that of HorizontalPodAutoscalers, would have metrics twice.
func ConvertOver(base, object runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object,
	error) {
	if _, ok := object.(*unstructured.Unstructured); ok || object.GetObjectKind().GroupVersionKind() == kind {
		return Convert(object, kind, o)
	}
	internal, err := convertToInternal(object, o)
	if err != nil {
		return nil, err
	}
	whole, err := convertToInternal(base, o)
	if err != nil {
		return nil, err
	}
	if reflect.TypeOf(whole) != reflect.TypeOf(internal) { // of another group
		return convertFrom(internal, kind, o)
	}
	partial, err := convertFrom(whole, object.GetObjectKind().GroupVersionKind(), o)
	if err != nil {
		return nil, err
	}
	if partial, err = convertToInternal(partial, o); err != nil {
		return nil, err
	}
	restoreLost(reflect.ValueOf(internal).Elem(), reflect.ValueOf(whole).Elem(), reflect.ValueOf(partial).Elem())
	return convertFrom(internal, kind, o)
}

// restoreLost sets the fields of object that are missing there and in partial, but not in whole.
func restoreLost(object, whole, partial reflect.Value) {
	if object.CanSet() && object.IsZero() && partial.IsZero() {
		object.Set(whole)
		return
	}
	if object.Kind() == reflect.Struct {
		for i := range object.NumField() {
			restoreLost(object.Field(i), whole.Field(i), partial.Field(i))
		}
	}
}

// convertToInternal converts an object to the server's internal version.
func convertToInternal(object runtime.Object, o admission.ObjectInterfaces) (runtime.Object, error) {
	kinds, _, err := o.GetObjectTyper().ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	return convertTo(object,
		schema.GroupVersionKind{Group: kinds[0].Group, Version: runtime.APIVersionInternal, Kind: kinds[0].Kind}, o)
}

// convertFrom converts an object of the server's internal version to a kind.
func convertFrom(internal runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object,
	error) {
	converted, err := convertTo(internal, kind, o)
	if err != nil {
		return nil, err
	}
	converted.GetObjectKind().SetGroupVersionKind(kind)
	return converted, nil
}

// convertTo converts an object to a kind in one step.
func convertTo(object runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (runtime.Object,
	error) {
	converted, err := o.GetObjectCreater().New(kind)
	if err != nil {
		return nil, err
	}
	return converted, o.GetObjectConvertor().Convert(object, converted, nil)
}

// Replace overwrites object with replacement, an object of the same type. The caller must not use
// replacement afterwards.
func Replace(object, replacement runtime.Object) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		u.SetUnstructuredContent(replacement.(*unstructured.Unstructured).UnstructuredContent())
		return
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(replacement).Elem())
}
