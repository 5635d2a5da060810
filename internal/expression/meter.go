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
	// freeUnits is what an evaluation may do without charge of what Kubernetes doesn't charge for.
	freeUnits = 8192
	// readPerUnit is how much of a text one unit of cost pays for where it is only read.
	readPerUnit = 100
	// fewValues is up to how many values a list, map or object in the expression itself costs what
	// it does in Kubernetes, which charges all of them alike.
	fewValues = 16
)

// meter counts in units of cost what an evaluation does that Kubernetes doesn't charge for.
type meter struct{ units int }

// meterName is the name by which calls get the meter of their evaluation. No expression can have
// it.
const meterName = "#meter"

func meterOf(vars interpreter.Activation) *meter {
	v, _ := vars.ResolveName(meterName)
	m, _ := v.(*meter)
	return m
}

// spend ends the evaluation once it does more than a single expression may cost.
func (m *meter) spend(units int) {
	if m == nil {
		return // the call is part of no evaluation, but has constant arguments
	}
	if units > celconfig.PerCallLimit || m.units > freeUnits+celconfig.PerCallLimit-units {
		exceed()
	}
	m.units += units
}

// cost is what is to be charged in the end.
func (m *meter) cost() uint64 { return uint64(max(0, m.units-freeUnits)) }

// errExceeded is how the library ends an evaluation that costs too much.
var errExceeded = interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded,
	Message: "operation cancelled: actual cost limit exceeded"}

func exceed() { panic(errExceeded) }

// bound replaces nodes of a program by such that end the evaluation before it does or allocates
// more than it can pay for.
func (c *checker) bound(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	if literal, ok := i.(interpreter.InterpretableConstructor); ok {
		return boundLiteral(literal), nil
	}
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch function := call.Function(); function {
	case "_+_":
		return c.metered(call, c.boundSum(call.OverloadID() == ""))
	case "_==_", "_!=_":
		args := call.Args()
		return &equality{call, args[0], args[1], function == "_!=_"}, nil
	case "@in":
		args := call.Args()
		impl, err := c.implementation(function, call.OverloadID())
		return &membership{call, args[0], args[1], impl}, err
	case "matches", "find", "findAll":
		return c.boundMatch(call)
	case "quantity", "isQuantity":
		return c.metered(call, boundQuantity(function))
	default:
		if size := growing[function]; size != nil {
			return c.metered(call, c.boundSize(function, size))
		}
		if units := reading[function]; units != nil {
			return c.metered(call, boundReading(units))
		}
		// Kubernetes charges these by the overload, which isn't known if arguments may be anything.
		if units := dispatched[function]; units != nil && call.OverloadID() == "" {
			return c.metered(call, boundReading(units))
		}
	}
	return i, nil
}

// boundReading bounds a function that costs some units.
func boundReading(units func(args []ref.Val) int) evaluation {
	return func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		if n := units(args); n > 0 {
			meterOf(vars).spend(n)
		}
		return impl(args...)
	}
}

// implementation is what a call of a function does.
type implementation = func(args ...ref.Val) ref.Val

// evaluation does a call in place of its implementation.
type evaluation func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val

// meteredCall is a call that is done by eval.
type meteredCall struct {
	interpreter.InterpretableCall
	args []interpreter.Interpretable
	impl implementation
	eval evaluation
}

func (c *checker) metered(call interpreter.InterpretableCall,
	eval evaluation) (interpreter.Interpretable, error) {
	impl, err := c.implementation(call.Function(), call.OverloadID())
	if impl == nil || err != nil || len(call.Args()) == 0 {
		return call, err
	}
	return &meteredCall{call, call.Args(), impl, eval}, nil
}

// Eval implements interpreter.Interpretable.
func (c *meteredCall) Eval(vars interpreter.Activation) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		args[i] = arg.Eval(vars)
		if types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	return types.LabelErrNode(c.ID(), c.eval(vars, args, c.impl))
}

// boundSum bounds the addition of two values. Kubernetes charges that of two texts, unless their
// types are known only when they are added.
func (c *checker) boundSum(dispatched bool) evaluation {
	adapter := c.env.CELTypeAdapter()
	return func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		n := concatSize(args)
		if n > maxBytes {
			exceed()
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

// boundSize bounds a growing function. A large result is charged when it is there; of small ones
// there may be many.
func (c *checker) boundSize(function string, size func([]ref.Val) int) evaluation {
	units := reading[function]
	return func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
		if units != nil {
			meterOf(vars).spend(units(args))
		}
		n := size(args)
		if n > maxBytes {
			exceed()
		}
		result := impl(args...)
		if n = resultSize(result); n <= freeBytes {
			meterOf(vars).spend((n + bytesPerUnit - 1) / bytesPerUnit)
		}
		return result
	}
}

// boundQuantity refuses what takes too long to parse.
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

// literal is a list, map or object of many values that are in the expression.
type literal struct {
	interpreter.InterpretableConstructor
	units int
}

func boundLiteral(of interpreter.InterpretableConstructor) interpreter.Interpretable {
	values := of.InitVals()
	if len(values) <= fewValues {
		return of
	}
	for _, v := range values {
		if _, constant := v.(interpreter.InterpretableConst); !constant {
			return &literal{of, len(values) * elementBytes / bytesPerUnit}
		}
	}
	return of // which is made once
}

// Eval implements interpreter.Interpretable.
func (l *literal) Eval(vars interpreter.Activation) ref.Val {
	meterOf(vars).spend(l.units)
	return l.InterpretableConstructor.Eval(vars)
}
