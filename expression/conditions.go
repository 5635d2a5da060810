package expression

import (
	"context"
	"fmt"

	"github.com/google/cel-go/common/types"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Conditions are the match conditions of one webhook, in their order. They may be evaluated
// concurrently, each time on other Variables. Nil is no conditions, and matches.
type Conditions struct {
	conditions []condition
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

// Match evaluates the conditions on one request. All of them together may cost
// RuntimeCELCostBudgetMatchConditions, about a quarter of a second, and each PerCallLimit
// (k8s.io/apiserver/pkg/apis/cel). Where ctx ends, so does the evaluation, with ctx's error.
func (c *Conditions) Match(ctx context.Context, v *Variables) Verdict {
	if c == nil {
		return Verdict{Matches: true}
	}
	return c.match(ctx, v, celconfig.RuntimeCELCostBudgetMatchConditions)
}

func (c *Conditions) match(ctx context.Context, v *Variables, budget uint64) Verdict {
	var errs []error
	evaluationErrors := 0
	for _, condition := range c.conditions {
		o := v.evaluate(ctx, condition.program)
		if o.cost > budget {
			errs = append(errs, fmt.Errorf("match condition %q: %w", condition.name, errOutOfBudget))
			break
		}
		budget -= o.cost
		if o.err != nil {
			errs = append(errs, fmt.Errorf("match condition %q: %w", condition.name, o.err))
			evaluationErrors++
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if o.value == types.False {
			return Verdict{Failed: condition.name, Errors: evaluationErrors}
		}
	}
	return Verdict{Matches: len(errs) == 0, Err: utilerrors.NewAggregate(errs), Errors: evaluationErrors}
}
