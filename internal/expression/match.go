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

// A pattern that repeats, as (a{100}){100} does, is compiled to as many instructions as it stands
// for, and each of them may be tried for each character of a text. Kubernetes charges such a
// pattern by its length.

const (
	// bytesPerInstruction is about what an instruction of a pattern takes.
	bytesPerInstruction = 40
	// charactersPerUnit and instructionsPerUnit are what Kubernetes charges a match by: a unit for
	// 10 characters of the text, times a unit for 4 of the pattern.
	charactersPerUnit, instructionsPerUnit = 10, 4
)

// boundMatch bounds a call that matches a text with a pattern.
func (c *checker) boundMatch(call interpreter.InterpretableCall) (interpreter.Interpretable, error) {
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
		return c.metered(call, func(vars interpreter.Activation, args []ref.Val, impl implementation) ref.Val {
			if n := instructions(textOf(args, 1)); n > 0 {
				m := meterOf(vars)
				m.spend(n * bytesPerInstruction / bytesPerUnit)
				m.spend(matchUnits(len(textOf(args, 0)), n))
			}
			return impl(args...)
		})
	}
	text, _ := pattern.Value().(types.String)
	n := instructions(string(text))
	if n == 0 {
		return call, nil
	}
	// The library compiles a constant pattern once, and replaces the call. It keeps the arguments.
	args = append([]interpreter.Interpretable{&matchedText{args[0], n}}, args[1:]...)
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, impl), nil
}

// matchedText is the text that is matched with a pattern.
type matchedText struct {
	interpreter.Interpretable
	instructions int
}

// Eval implements interpreter.Interpretable.
func (t *matchedText) Eval(vars interpreter.Activation) ref.Val {
	v := t.Interpretable.Eval(vars)
	if s, ok := v.(types.String); ok {
		meterOf(vars).spend(matchUnits(len(s), t.instructions))
	}
	return v
}

func matchUnits(characters, instructions int) int {
	return min((characters/charactersPerUnit+1)*(instructions/instructionsPerUnit+1), celconfig.PerCallLimit+1)
}

// instructions returns to about how many instructions a pattern that repeats is compiled, 0 for one
// that doesn't repeat or isn't valid.
func instructions(pattern string) int {
	if !strings.Contains(pattern, "{") {
		return 0
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return countInstructions(parsed)
}

func countInstructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += countInstructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		if times := max(re.Min, re.Max); times > 1 {
			n = min(n, math.MaxInt32/times) * times
		}
	}
	return n
}
