// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// objectTypes resolves the types Object and JSONPatch. The fields of its Objects can be read.
type objectTypes struct{ mutation.DynamicTypeResolver }

// Resolve implements common.TypeResolver.
func (r *objectTypes) Resolve(name string) (common.ResolvedType, bool) {
	t, ok := r.DynamicTypeResolver.Resolve(name)
	if object, isObject := t.(*dynamic.ObjectType); ok && isObject {
		return objectType{object}, true
	}
	return t, ok
}

type objectType struct{ *dynamic.ObjectType }

// Val implements common.ResolvedType.
func (t objectType) Val(fields map[string]ref.Val) ref.Val {
	return &objectValue{dynamic.NewObjectVal(t.Type(), fields), fields}
}

// objectValue is a value of type Object, or of the type of one of its fields.
type objectValue struct {
	*dynamic.ObjectVal
	fields map[string]ref.Val
}

// Equal implements ref.Val.
func (v *objectValue) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*objectValue); ok {
		return v.ObjectVal.Equal(o.ObjectVal)
	}
	return types.False
}

// ConvertToType implements ref.Val.
func (v *objectValue) ConvertToType(t ref.Type) ref.Val {
	if v.Type().TypeName() == t.TypeName() {
		return v
	}
	return v.ObjectVal.ConvertToType(t)
}

// checkTypeNames returns an error for each Object in v whose type isn't named after the field it is
// in.
//
// Source: k8s.io/apiserver/pkg/cel/mutation/dynamic#CheckTypeNamesMatchFieldPathNames 7ef930f9
func (v *objectValue) checkTypeNames() error {
	return errors.Join(typeErrors(v, []string{v.Type().TypeName()})...)
}

func typeErrors(v ref.Val, path []string) (errs []error) {
	if o, ok := v.(*objectValue); ok {
		name, want := o.Type().TypeName(), strings.Join(path, ".")
		if name != want {
			errs = append(errs, fmt.Errorf("unexpected type name %q, expected %q, "+
				"which matches field name path from root Object type", name, want))
		}
		for field, value := range o.fields {
			errs = append(errs, typeErrors(value, append(path[:len(path):len(path)], field))...)
		}
		return errs
	}
	switch value := v.Value().(type) {
	case []ref.Val:
		for _, v := range value {
			errs = append(errs, typeErrors(v, path)...)
		}
	case map[ref.Val]ref.Val:
		for _, v := range value {
			errs = append(errs, typeErrors(v, path)...)
		}
	}
	return errs
}
