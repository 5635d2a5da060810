// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apimachinery/pkg/api/resource"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"gatehouse.dev/internal/quantity"
)

const (
	// freeUnits is how many units an evaluation may spend for free on work that Kubernetes doesn't
	// charge for.
	freeUnits = 8192
	// readPerUnit is how many bytes of a text one unit of cost pays for if the text is only read.
	readPerUnit = 100
	// freeValues is the number of values up to which a list, map or object literal costs the same
	// as in Kubernetes, which charges the same for all sizes.
	freeValues = 16
)

// meter counts the work of an evaluation that Kubernetes doesn't charge for, in units of cost.
type meter struct{ units int }

// meterName is the name by which calls find the meter of their evaluation. It isn't a valid name in
// an expression.
const meterName = "#meter"

func meterOf(vars interpreter.Activation) *meter {
	v, _ := vars.ResolveName(meterName)
	m, _ := v.(*meter)
	return m
}

// spend adds units. It ends the evaluation if that exceeds what one expression may cost.
func (m *meter) spend(units int) {
	if m == nil {
		return // a call with constant arguments, evaluated while planning
	}
	if units > celconfig.PerCallLimit || m.units > freeUnits+celconfig.PerCallLimit-units {
		exceedLimit()
	}
	m.units += units
}

// cost returns the units to charge.
func (m *meter) cost() uint64 { return uint64(max(0, m.units-freeUnits)) }

// errExceeded is the error with which the library ends an evaluation that costs too much.
var errExceeded = interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded,
	Message: "operation cancelled: actual cost limit exceeded"}

func exceedLimit() { panic(errExceeded) }

// boundNode replaces a node of a program by one that ends the evaluation before it does more work
// or allocates more memory than it can pay for.
func (c *checker) boundNode(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if literal, ok := i.(interpreter.InterpretableConstructor); ok {
		return boundLiteral(literal), nil
	}
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch function := call.Function(); function {
	case "_+_":
		return c.meterCall(call, c.boundSum(call.OverloadID() == ""))
	case "_==_", "_!=_":
		args := call.Args()
		return &equality{call, args[0], args[1], function == "_!=_"}, nil
	case "@in":
		args := call.Args()
		impl, err := c.implementation(function, call.OverloadID())
		return &membership{call, args[0], args[1], impl}, err
	case "includes":
		return c.meterCall(call, includes)
	case "matches", "find", "findAll":
		return c.boundMatch(call)
	case "quantity", "isQuantity":
		return c.meterCall(call, boundQuantity(function))
	default:
		if size := resultSizes[function]; size != nil {
			return c.meterCall(call, c.boundSize(function, size))
		}
		if units := readCosts[function]; units != nil {
			return c.meterCall(call, boundReading(units))
		}
		// Kubernetes charges for these by overload, which isn't known if arguments may be of any
		// type.
		if units := dynamicCosts[function]; units != nil && call.OverloadID() == "" {
			return c.meterCall(call, boundReading(units))
		}
	}
	return i, nil
}

// boundReading charges a function for what it reads.
func boundReading(units func(args []ref.Val) int) evaluation {
	return func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		if n := units(args); n > 0 {
			meterOf(vars).spend(n)
		}
		return impl(args...)
	}
}

// implementation is the code of a function.
type implementation = func(args ...ref.Val) ref.Val

// evaluation evaluates a call in place of its implementation.
type evaluation func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val

// meteredCall is a call that eval evaluates.
type meteredCall struct {
	interpreter.InterpretableCall
	args []interpreter.InterpretableV2
	impl implementation
	eval evaluation
}

// meterCall returns a call that eval evaluates.
func (c *checker) meterCall(call interpreter.InterpretableCall,
	eval evaluation) (interpreter.InterpretableV2, error) {
	impl, err := c.implementation(call.Function(), call.OverloadID())
	if impl == nil || err != nil || len(call.Args()) == 0 {
		return call, err
	}
	return &meteredCall{call, call.Args(), impl, eval}, nil
}

// Eval implements interpreter.Interpretable.
func (c *meteredCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (c *meteredCall) Exec(vars *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		args[i] = arg.Exec(vars)
		if types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	return types.LabelErrNode(c.ID(), c.eval(vars, args, c.impl))
}

// boundSum bounds the addition of two values. Kubernetes charges for that of two texts only if it
// knows their types. dispatched reports that it doesn't.
func (c *checker) boundSum(dispatched bool) evaluation {
	adapter := c.env.CELTypeAdapter()
	return func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		n := concatSize(args)
		if n > maxBytes {
			exceedLimit()
		}
		switch args[0].(type) {
		case types.String, types.Bytes:
			if dispatched && n <= freeBytes {
				meterOf(vars).spend(n / bytesPerUnit)
			}
			return impl(args...)
		}
		if n <= freeBytes {
			meterOf(vars).spend(n / bytesPerUnit)
			return impl(args...)
		}
		return concat(adapter, args[0].(traits.Lister), args[1].(traits.Lister))
	}
}

// boundSize bounds a function in resultSizes. costEstimator charges for a large result; small
// results, of which there may be many, are charged here.
func (c *checker) boundSize(function string, size func([]ref.Val) int) evaluation {
	units := readCosts[function]
	return func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		if units != nil {
			meterOf(vars).spend(units(args))
		}
		n := size(args)
		if n > maxBytes {
			exceedLimit()
		}
		result := impl(args...)
		if n = resultSize(result); n <= freeBytes {
			meterOf(vars).spend((n + bytesPerUnit - 1) / bytesPerUnit)
		}
		return result
	}
}

// boundQuantity refuses quantities that take too long to parse.
func boundQuantity(function string) evaluation {
	return func(_ interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		if s, ok := args[0].(types.String); !ok || !quantity.TooLong(string(s)) {
			return impl(args...)
		}
		if function == "isQuantity" {
			return types.False
		}
		return types.WrapErr(resource.ErrFormatWrong)
	}
}

// meteredLiteral is a list, map or object literal with many values.
type meteredLiteral struct {
	interpreter.InterpretableConstructor
	units int
}

func boundLiteral(literal interpreter.InterpretableConstructor) interpreter.InterpretableV2 {
	values := literal.InitVals()
	if len(values) <= freeValues {
		return literal
	}
	for _, v := range values {
		if _, constant := v.(interpreter.InterpretableConst); !constant {
			return &meteredLiteral{literal, len(values) * elementBytes / bytesPerUnit}
		}
	}
	return literal // a constant, which is made once
}

// Eval implements interpreter.Interpretable.
func (l *meteredLiteral) Eval(vars interpreter.Activation) ref.Val {
	return l.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (l *meteredLiteral) Exec(vars *interpreter.ExecutionFrame) ref.Val {
	meterOf(vars).spend(l.units)
	return l.InterpretableConstructor.Exec(vars)
}
