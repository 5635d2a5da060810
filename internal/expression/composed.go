package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// variablesValue is the value of variables: an object with a field for each variable that an
// expression may read, which is evaluated when it is read.
//
// Source: k8s.io/apiserver/pkg/cel/lazy.
type variablesValue struct {
	frame *frame
	// values are those of the variables that have been read, by their index.
	values []ref.Val
}

var variablesType = types.NewTypeValue("kubernetes.variables",
	traits.IndexerType|traits.FieldTesterType|traits.IterableType)

func (v *variablesValue) all() []variableOf {
	return v.frame.program.scope.variables[:v.frame.program.visible]
}

func (v *variablesValue) value(i int) ref.Val {
	if v.values == nil {
		v.values = make([]ref.Val, len(v.all()))
	}
	if v.values[i] == nil {
		v.values[i] = v.frame.variable(&v.all()[i])
	}
	return v.values[i]
}

// Find returns a variable by its name.
func (v *variablesValue) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	unescaped, ok := apiservercel.Unescape(string(name))
	if !ok {
		return nil, false
	}
	for i := range v.all() {
		if v.all()[i].name == unescaped {
			return v.value(i), true
		}
	}
	return nil, false
}

// Get returns a variable by its name, or an error.
func (v *variablesValue) Get(key ref.Val) ref.Val {
	if value, found := v.Find(key); found {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains tells whether there is a variable with a name. Like Find it evaluates it.
func (v *variablesValue) Contains(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Size is the number of variables.
func (v *variablesValue) Size() ref.Val { return types.Int(len(v.all())) }

// Iterator walks the variables' values, as upstream's does, and not their names.
func (v *variablesValue) Iterator() traits.Iterator {
	values := make([]ref.Val, len(v.all()))
	for i := range values {
		values[i] = v.value(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values).Iterator()
}

// Type is that of an object with fields.
func (v *variablesValue) Type() ref.Type { return variablesType }

// Equal tells whether it is the same value, not whether its variables are equal.
func (v *variablesValue) Equal(other ref.Val) ref.Val {
	others, ok := other.(*variablesValue)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v == others)
}

// ConvertToType returns its type, or itself as what it is.
func (v *variablesValue) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesType:
		return v
	case types.TypeType:
		return variablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesType.TypeName(), t.TypeName())
}

// ConvertToNative fails: there is nothing else that it could be.
func (v *variablesValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("disallowed conversion from %q to %q", variablesType.TypeName(), t.Name())
}

// Value is not there.
func (v *variablesValue) Value() any { return types.NoSuchOverloadErr() }
