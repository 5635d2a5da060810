// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Conditions holds the match conditions of one webhook or policy, in order. It may be evaluated
// concurrently, each time on other Variables. A nil Conditions has no conditions and matches.
type Conditions struct {
	conditions []condition
	// namesConditions reports whether errors name the condition. It is false for policies, whose
	// errors are upstream's.
	namesConditions bool
}

type condition struct {
	name    string
	program *program
}

// A Verdict is the result of match conditions: they match, one is false, or there is an error.
type Verdict struct {
	// Matches reports whether all conditions are true.
	Matches bool

	// Failed is the name of the first condition that is false, whatever errors came before it.
	Failed string

	// Err holds all errors if no condition is false. The webhook's failurePolicy decides what they
	// mean for the request.
	Err error

	// Errors is how many conditions could not be evaluated, including those before the one that is
	// false. apiserver_admission_match_condition_evaluation_errors_total counts these.
	Errors int
}

// Match evaluates the conditions of a webhook on one request. Together they may cost
// RuntimeCELCostBudgetMatchConditions, about a quarter of a second, and each of them PerCallLimit
// (k8s.io/apiserver/pkg/apis/cel). If ctx ends, the evaluation ends with ctx's error.
func (c *Conditions) Match(ctx context.Context, v *Variables) Verdict {
	return c.MatchParams(ctx, v, nil)
}

// MatchParams evaluates the conditions of a policy, which may read params.
func (c *Conditions) MatchParams(ctx context.Context, v *Variables, params *Params) Verdict {
	if c == nil {
		return Verdict{Matches: true}
	}
	return c.match(ctx, v, params, celconfig.RuntimeCELCostBudgetMatchConditions)
}

func (c *Conditions) match(ctx context.Context, v *Variables, params *Params, budget uint64) Verdict {
	var errs []error
	fail := func(name string, err error) {
		if c.namesConditions {
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

// Prepare compiles the conditions and returns the first error.
func (c *Conditions) Prepare() error {
	if c == nil {
		return nil
	}
	for _, condition := range c.conditions {
		if _, err := condition.program.compileOnce(); err != nil {
			return err
		}
	}
	return nil
}

// ReadsParams reports whether a condition, or a variable that it reads, reads params. It compiles
// the conditions.
func (c *Conditions) ReadsParams() bool {
	return c != nil && slices.ContainsFunc(c.conditions,
		func(condition condition) bool { return condition.program.dependencies().params })
}
