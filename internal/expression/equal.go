// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apiserver/pkg/cel/mutation"
)

// A list can contain the same list many times, and that one another list many times. A few steps
// make a value with more elements than could ever be compared. So each comparison of two elements
// is counted.

// equality is a call of == or != that counts comparisons.
type equality struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	negated     bool
}

// Eval implements interpreter.Interpretable.
func (e *equality) Eval(vars interpreter.Activation) ref.Val {
	return e.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (e *equality) Exec(vars *interpreter.ExecutionFrame) ref.Val {
	left, right := e.left.Exec(vars), e.right.Exec(vars)
	if types.IsUnknownOrError(left) {
		return left
	}
	if types.IsUnknownOrError(right) {
		return right
	}
	var equal ref.Val
	if holdsOthers(left) && holdsOthers(right) {
		equal = types.Bool(meterOf(vars).equal(left, right))
	} else {
		equal = types.Equal(left, right)
	}
	if e.negated {
		return types.Bool(equal != types.True)
	}
	return equal
}

// membership is a call of in that counts comparisons.
type membership struct {
	interpreter.InterpretableCall
	element, container interpreter.InterpretableV2
	impl               implementation
}

// Eval implements interpreter.Interpretable.
func (m *membership) Eval(vars interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (m *membership) Exec(vars *interpreter.ExecutionFrame) ref.Val {
	element, container := m.element.Exec(vars), m.container.Exec(vars)
	if types.IsUnknownOrError(element) {
		return element
	}
	if types.IsUnknownOrError(container) {
		return container
	}
	list, ok := container.(traits.Lister)
	if ok && m.OverloadID() == "" {
		meterOf(vars).spend(listLength(list)) // Kubernetes charges this if it knows the type
	}
	if !ok || !holdsOthers(element) {
		if ok {
			meterOf(vars).spend(listLength(list) * (textSize(element) / readPerUnit))
		}
		if m.impl == nil {
			return types.MaybeNoSuchOverloadErr(element)
		}
		return m.impl(element, container)
	}
	count := meterOf(vars)
	for i := list.Iterator(); i.HasNext() == types.True; {
		if count.equal(element, i.Next()) {
			return types.True
		}
	}
	return types.False
}

// includes evaluates includes, which compares a value with each element of a list, or with another
// value. Kubernetes charges for everything in the first argument, but only afterwards, and not for
// comparing what holds others.
//
// Source: k8s.io/apiserver/pkg/cel/library/lists.go#includes 43193a34
func includes(vars interpreter.Activation, args []ref.Val, _ implementation) ref.Val {
	count := meterOf(vars)
	if holdsOthers(args[0]) {
		count.spend(valueUnits(args[0]))
	}
	list, ok := args[0].(traits.Lister)
	if !ok {
		return types.Bool(count.isSame(args[0], args[1]))
	}
	for i := list.Iterator(); i.HasNext() == types.True; {
		if count.isSame(i.Next(), args[1]) {
			return types.True
		}
	}
	return types.False
}

// isSame reports whether two values are equal. Unlike with ==, values that can't be compared aren't.
func (m *meter) isSame(a, b ref.Val) bool {
	if holdsOthers(a) && holdsOthers(b) {
		return m.equal(a, b)
	}
	return a.Equal(b) == types.True
}

// holdsOthers reports whether a value may contain other values.
func holdsOthers(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Bool, types.Double, types.Uint, types.Null, types.Bytes:
		return false
	case traits.Lister, traits.Mapper, *types.Optional, *objectValue, *mutation.JSONPatchVal:
		return true
	}
	return false
}

// equal reports whether two values are equal in CEL. It spends a unit for each comparison.
func (m *meter) equal(a, b ref.Val) bool {
	m.spend(1)
	switch a := a.(type) {
	case types.String:
		if len(a) > readPerUnit {
			m.spend(len(a) / readPerUnit)
		}
	case traits.Lister:
		b, ok := b.(traits.Lister)
		return ok && m.equalLists(a, b)
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		return ok && m.equalMaps(a, b)
	case *types.Optional:
		b, ok := b.(*types.Optional)
		if !ok || !a.HasValue() || !b.HasValue() {
			return ok && a.HasValue() == b.HasValue()
		}
		return m.equal(a.GetValue(), b.GetValue())
	case *objectValue:
		b, ok := b.(*objectValue)
		if !ok {
			return false
		}
		m.spend(valueUnits(a))
		m.spend(valueUnits(b))
		return a.Type().TypeName() == b.Type().TypeName() && reflect.DeepEqual(a.fields, b.fields)
	case *mutation.JSONPatchVal:
		b, ok := b.(*mutation.JSONPatchVal)
		if !ok || a.Op != b.Op || a.From != b.From || a.Path != b.Path || (a.Val == nil) != (b.Val == nil) {
			return false
		}
		return a.Val == nil || m.equal(a.Val, b.Val)
	}
	return types.Equal(a, b) != types.False // as upstream, values that can't be compared are equal
}

func (m *meter) equalLists(a, b traits.Lister) bool {
	n := a.Size()
	if b.Size() != n {
		return false
	}
	for i := types.Int(0); i < n.(types.Int); i++ {
		if !m.equal(a.Get(i), b.Get(i)) {
			return false
		}
	}
	return true
}

func (m *meter) equalMaps(a, b traits.Mapper) bool {
	if a.Size() != b.Size() {
		return false
	}
	for i := a.Iterator(); i.HasNext() == types.True; {
		key := i.Next()
		value, _ := a.Find(key)
		other, found := b.Find(key)
		if !found || !m.equal(value, other) {
			return false
		}
	}
	return true
}
