package expression

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Conditions are the match conditions of one webhook or policy, in their order. They may be
// evaluated concurrently, each time on other Variables. Nil is no conditions, and matches.
type Conditions struct {
	conditions []condition
	// named has errors name the condition. Those of policies are worded as upstream's.
	named bool
}

type condition struct {
	name    string
	program *program
}

// A Verdict says whether a webhook is to be called. There are three: it matches, a condition
// failed, or there is an error.
type Verdict struct {
	// Matches is true where all conditions are true.
	Matches bool

	// Failed is the name of the first condition that is false, whatever errors came before it.
	Failed string

	// Err holds all errors, each with its condition's name, where no condition is false. What
	// becomes of the request is for the webhook's failure policy to say.
	Err error

	// Errors is how many conditions could not be evaluated, including those before the one that is
	// false: what apiserver_admission_match_condition_evaluation_errors_total counts.
	Errors int
}

// errOutOfBudget is upstream's error in upstream's words.
var errOutOfBudget = &apiservercel.Error{
	Type:   apiservercel.ErrorTypeInvalid,
	Detail: "validation failed due to running out of cost budget, no further validation rules will be run",
	Cause:  apiservercel.ErrOutOfBudget,
}

// Match evaluates the conditions of a webhook on one request. All of them together may cost
// RuntimeCELCostBudgetMatchConditions, about a quarter of a second, and each PerCallLimit
// (k8s.io/apiserver/pkg/apis/cel). Where ctx ends, so does the evaluation, with ctx's error.
func (c *Conditions) Match(ctx context.Context, v *Variables) Verdict {
	return c.MatchParams(ctx, v, nil)
}

// MatchParams evaluates the conditions of a policy, of which those may read params that the policy
// has params for.
func (c *Conditions) MatchParams(ctx context.Context, v *Variables, params *Params) Verdict {
	if c == nil {
		return Verdict{Matches: true}
	}
	return c.match(ctx, v, params, celconfig.RuntimeCELCostBudgetMatchConditions)
}

func (c *Conditions) match(ctx context.Context, v *Variables, params *Params, budget uint64) Verdict {
	var errs []error
	fail := func(name string, err error) {
		if c.named {
			err = fmt.Errorf("match condition %q: %w", name, err)
		}
		errs = append(errs, err)
	}
	evaluationErrors := 0
	run := v.run(Inputs{Params: params, Authorizer: true}, budget)
	for _, condition := range c.conditions {
		result, err := run.evaluate(ctx, condition.program)
		if err != nil {
			fail(condition.name, err)
			break
		}
		if result.Err != nil {
			fail(condition.name, result.Err)
			evaluationErrors++
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if result.Value == types.False {
			return Verdict{Failed: condition.name, Errors: evaluationErrors}
		}
	}
	return Verdict{Matches: len(errs) == 0, Err: utilerrors.NewAggregate(errs), Errors: evaluationErrors}
}

// Prepare compiles the conditions, and returns the first error.
func (c *Conditions) Prepare() error {
	if c == nil {
		return nil
	}
	for _, condition := range c.conditions {
		if _, err := condition.program.compiled(); err != nil {
			return err
		}
	}
	return nil
}

// ReadsParams tells whether a condition, or a variable that it reads, reads params. It compiles
// them.
func (c *Conditions) ReadsParams() bool {
	return c != nil && slices.ContainsFunc(c.conditions,
		func(condition condition) bool { return condition.program.reading().params })
}
