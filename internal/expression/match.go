// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"math"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A pattern with nested repetitions, such as (a{100}){100}, is compiled to as many instructions as
// there are repetitions in total, and each instruction may be tried for each character of a text.
// Kubernetes charges for a pattern by its length.

const (
	// bytesPerInstruction is the approximate memory of one instruction of a pattern.
	bytesPerInstruction = 40
	// charactersPerUnit and instructionsPerUnit are the price of a match in Kubernetes: one unit
	// for 10 characters of the text, times one unit for 4 characters of the pattern.
	charactersPerUnit, instructionsPerUnit = 10, 4
)

// boundMatch bounds a call that matches a text against a pattern.
func (c *checker) boundMatch(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	args := call.Args()
	if len(args) < 2 {
		return call, nil
	}
	impl, err := c.implementation(call.Function(), call.OverloadID())
	if impl == nil || err != nil {
		return call, err
	}
	pattern, constant := args[1].(interpreter.InterpretableConst)
	if !constant {
		return c.meterCall(call, func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
			if n := patternInstructions(textArg(args, 1)); n > 0 {
				m := meterOf(vars)
				m.spend(n * bytesPerInstruction / bytesPerUnit)
				m.spend(matchUnits(len(textArg(args, 0)), n))
			}
			return impl(args...)
		})
	}
	text, _ := pattern.Value().(types.String)
	n := patternInstructions(string(text))
	if n == 0 {
		return call, nil
	}
	// The library compiles a constant pattern once and replaces the call, but keeps the call's
	// arguments.
	args = append([]interpreter.InterpretableV2{&matchedText{args[0], n}}, args[1:]...)
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, impl), nil
}

// matchedText is the text argument of a match. It charges for the match when it is evaluated.
type matchedText struct {
	interpreter.InterpretableV2
	instructions int
}

// Eval implements interpreter.Interpretable.
func (t *matchedText) Eval(vars interpreter.Activation) ref.Val {
	return t.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (t *matchedText) Exec(vars *interpreter.ExecutionFrame) ref.Val {
	v := t.InterpretableV2.Exec(vars)
	if s, ok := v.(types.String); ok {
		meterOf(vars).spend(matchUnits(len(s), t.instructions))
	}
	return v
}

func matchUnits(characters, instructions int) int {
	return min((characters/charactersPerUnit+1)*(instructions/instructionsPerUnit+1), celconfig.PerCallLimit+1)
}

// patternInstructions returns about how many instructions a pattern with repetitions is compiled
// to. It returns 0 if the pattern has no repetitions or isn't valid.
func patternInstructions(pattern string) int {
	if !strings.Contains(pattern, "{") {
		return 0
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return nodeInstructions(parsed)
}

func nodeInstructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += nodeInstructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		if times := max(re.Min, re.Max); times > 1 {
			n = min(n, math.MaxInt32/times) * times
		}
	}
	return n
}
