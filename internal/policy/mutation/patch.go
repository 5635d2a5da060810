// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"gatehouse.dev/internal/quantity"
)

// Patch applies a JSON patch to the object, and reports whether that changed it. An error leaves the
// object unchanged. If the result can't be decoded as an object, the error is a 500 that no failure
// policy ignores, as upstream.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go#Patch 15d6a4c9
func (o *Object) Patch(patch jsonpatch.Patch) (changed bool, err error) {
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, o.interfaces.GetObjectCreater(),
		o.interfaces.GetObjectTyper(), json.SerializerOptions{Strict: true})
	data, err := runtime.Encode(serializer, o.object)
	if err != nil {
		return false, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	data, err = applyPatch(data, patch)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		// A test operation is a condition: if it fails, nothing is to be done.
		o.setDefaults()
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("JSON Patch: %w", err)
	}
	// Not the creater's New: for the scale of a custom resource it makes another type.
	object := reflect.New(reflect.TypeOf(o.object).Elem()).Interface().(runtime.Object)
	err = o.checkQuantities(func(empty runtime.Object) error { return quantity.CheckJSON(data, empty) })
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	object, kind, err := serializer.Decode(data, nil, object)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if *kind != o.kind {
		return false, apierrors.NewInternalError(fmt.Errorf("apiVersion and kind must stay those of %s, "+
			"not become those of %s", o.kind, kind))
	}
	object.GetObjectKind().SetGroupVersionKind(o.kind)
	return o.replaceWith(object), nil
}

// applyPatch applies a patch to a document.
func applyPatch(data []byte, patch jsonpatch.Patch) (_ []byte, err error) {
	defer func() {
		// The library panics on some patches that have no meaning: one that replaces the whole
		// document and has no value, say.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("an operation can't be applied, check its path and value: %v", cause)
		}
	}()
	return patch.Apply(data)
}
