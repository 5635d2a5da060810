// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// variablesValue is the value of variables: an object with a field for each variable that the
// expression may read. A variable is evaluated when its field is read.
//
// Source: k8s.io/apiserver/pkg/cel/lazy 36ee29fa
type variablesValue struct {
	frame *frame
	// values holds the values of the variables that have been read, by index.
	values []ref.Val
}

var variablesType = types.NewTypeValue("kubernetes.variables",
	traits.IndexerType|traits.FieldTesterType|traits.IterableType)

// declared returns the variables that the expression may read.
func (v *variablesValue) declared() []composedVariable {
	return v.frame.program.scope.variables[:v.frame.program.visibleCount]
}

func (v *variablesValue) value(i int) ref.Val {
	if v.values == nil {
		v.values = make([]ref.Val, len(v.declared()))
	}
	if v.values[i] == nil {
		v.values[i] = v.frame.evaluateVariable(&v.declared()[i])
	}
	return v.values[i]
}

// Find returns the variable with a name.
func (v *variablesValue) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	unescaped, ok := apiservercel.Unescape(string(name))
	if !ok {
		return nil, false
	}
	for i := range v.declared() {
		if v.declared()[i].name == unescaped {
			return v.value(i), true
		}
	}
	return nil, false
}

// Get returns the variable with a name, or an error.
func (v *variablesValue) Get(key ref.Val) ref.Val {
	if value, found := v.Find(key); found {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains reports whether there is a variable with a name. Like Find, it evaluates the variable.
func (v *variablesValue) Contains(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Size returns the number of variables.
func (v *variablesValue) Size() ref.Val { return types.Int(len(v.declared())) }

// Iterator returns an iterator over the variables' values, as upstream's does, and not their names.
func (v *variablesValue) Iterator() traits.Iterator {
	values := make([]ref.Val, len(v.declared()))
	for i := range values {
		values[i] = v.value(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values).Iterator()
}

// Type returns the type of an object with fields.
func (v *variablesValue) Type() ref.Type { return variablesType }

// Equal reports whether other is the same value. It doesn't compare the variables.
func (v *variablesValue) Equal(other ref.Val) ref.Val {
	others, ok := other.(*variablesValue)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v == others)
}

// ConvertToType implements ref.Val. It converts to the own type and to type only.
func (v *variablesValue) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesType:
		return v
	case types.TypeType:
		return variablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesType.TypeName(), t.TypeName())
}

// ConvertToNative always fails: there is no Go type for it.
func (v *variablesValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("disallowed conversion from %q to %q", variablesType.TypeName(), t.Name())
}

// Value returns an error: there is no Go value for it.
func (v *variablesValue) Value() any { return types.NoSuchOverloadErr() }
