// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apiserver/pkg/cel/mutation"
)

// Configuration returns the result of an ApplyConfiguration's expression as JSON, without
// apiVersion and kind. The type name of each object in it must be that of the field it is in:
//
//	type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field
//	name path from root Object type
//
// The kind's schema checks the types of the fields. A value that has no form in JSON is left as it
// is, and the schema refuses it.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go#Patch 3ba4cc2a
func Configuration(value ref.Val) (map[string]any, error) {
	object, ok := value.(*objectValue)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	if isHuge(object) {
		return nil, ErrOutOfBudget
	}
	if err := object.checkTypeNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	content, ok := object.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %v", object.Value())
	}
	return content, nil
}

// Patch returns the result of a JSONPatch's expression.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go#evaluatePatchExpression 3560461f
func Patch(value ref.Val) (jsonpatch.Patch, error) {
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	patch := jsonpatch.Patch{}
	for i := list.Iterator(); i.HasNext() == types.True; {
		item := i.Next()
		operation, ok := item.(*mutation.JSONPatchVal)
		if !ok {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, "+
				"got element of %T", item)
		}
		if operation.Val != nil && isHuge(operation.Val) {
			return nil, ErrOutOfBudget
		}
		encoded, err := encodeOperation(operation)
		if err != nil {
			return nil, err
		}
		patch = append(patch, encoded)
	}
	return patch, nil
}

func encodeOperation(o *mutation.JSONPatchVal) (jsonpatch.Operation, error) {
	encoded := jsonpatch.Operation{"op": quoteJSON(o.Op), "path": quoteJSON(o.Path)}
	if o.From != "" {
		encoded["from"] = quoteJSON(o.From)
	}
	if o.Val == nil {
		return encoded, nil
	}
	if object, ok := o.Val.(*objectValue); ok {
		if err := object.checkTypeNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	value, err := encodeValue(o.Val)
	if err != nil {
		return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
	}
	encoded["value"] = value
	return encoded, nil
}

// quoteJSON returns a string as JSON. Upstream quotes as Go does, which is not JSON if there are
// characters that can't be printed.
func quoteJSON(s string) *json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		raw = []byte(strconv.Quote(s)) // impossible: all strings can be encoded
	}
	return (*json.RawMessage)(&raw)
}

// encodeValue encodes a value as upstream does, by protobuf's JSON: integers beyond 2^53 become
// strings, and bytes become base64.
func encodeValue(v ref.Val) (_ *json.RawMessage, err error) {
	defer func() {
		// Some of the libraries' types have conversions that panic.
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	value, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(value)
	return (*json.RawMessage)(&encoded), err
}
