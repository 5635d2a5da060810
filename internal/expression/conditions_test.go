// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

const (
	errs  = "object.nope == 1"
	other = "object.neither == 1"
)

// Source: TestMatch in
// k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher_test.go.
func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name       string
		conditions *Conditions
		want       Verdict
		err        string
	}{
		{name: "no conditions", conditions: NewCompiler().Compile(nil), want: Verdict{Matches: true}},
		{name: "all true", conditions: conditions("true", "object.metadata.name == 'web'"),
			want: Verdict{Matches: true}},
		{name: "one false", conditions: conditions("true", "false", "true"), want: Verdict{Failed: "b"}},
		{name: "the first false is named", conditions: conditions("true", "1 > 2", "false"),
			want: Verdict{Failed: "b"}},
		{name: "false beats an error before it", conditions: conditions(errs, other, "false"),
			want: Verdict{Failed: "c", Errors: 2}},
		{name: "false beats an error after it", conditions: conditions("false", errs), want: Verdict{Failed: "a"}},
		{name: "false beats an expression that doesn't compile", conditions: conditions("nope", "false"),
			want: Verdict{Failed: "b", Errors: 1}},
		{
			name: "an error among true ones", conditions: conditions("true", errs, "true"), want: Verdict{Errors: 1},
			err: `match condition "b": expression 'object.nope == 1' resulted in error: no such key: nope`,
		},
		{
			name: "all errors", conditions: conditions(errs, "true", other), want: Verdict{Errors: 2},
			err: `[match condition "a": expression 'object.nope == 1' resulted in error: no such key: nope, ` +
				`match condition "c": expression 'object.neither == 1' resulted in error: no such key: neither]`,
		},
		{
			name: "doesn't compile", conditions: conditions("object."), want: Verdict{Errors: 1},
			err: `match condition "a": compilation error: compilation failed: ERROR: <input>:1:8: Syntax error: no ` +
				`viable alternative at input '.'` +
				"\n | object.\n | .......^",
		},
		{
			name: "not a bool", conditions: conditions("'x'"), want: Verdict{Errors: 1},
			err: `match condition "a": compilation error: must evaluate to bool but got string`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.conditions.Match(t.Context(), create(pod()))
			message := ""
			if got.Err != nil {
				message = got.Err.Error()
			}
			got.Err = nil
			if got != test.want || message != test.err {
				t.Errorf("got  %+v %s\nwant %+v %s", got, message, test.want, test.err)
			}
		})
	}
}

// costly is an expression that walks 10 to the power of n elements.
func costly(n int) string {
	expression := "true"
	for i := range n {
		expression = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(v%d, %s)", i, expression)
	}
	return expression
}

// Source: TestRuntimeCELCostBudget in k8s.io/apiserver/pkg/admission/plugin/cel/condition_test.go.
func TestBudget(t *testing.T) {
	thousand := costly(3)
	cost := outcomeOf(t, thousand).cost
	for _, test := range []struct {
		name       string
		conditions *Conditions
		budget     uint64
		want       Verdict
		outOf      string
	}{
		{"exactly enough", conditions(thousand, thousand), 2 * cost, Verdict{Matches: true}, ""},
		{"exactly enough, and a constant after it", conditions(thousand, thousand, "true"), 2 * cost,
			Verdict{Matches: true}, ""},
		{"one too few", conditions(thousand, thousand), 2*cost - 1, Verdict{}, "b"},
		{"none", conditions(thousand), 0, Verdict{}, "a"},
		{"spent before the one that is false", conditions(thousand, "false && 1 > 2"), cost - 1, Verdict{}, "a"},
		{"false wins over what would be spent after it", conditions("false", thousand), cost - 1, Verdict{Failed: "a"},
			""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.conditions.match(t.Context(), create(nil), nil, test.budget)
			if errors.Is(got.Err, apiservercel.ErrOutOfBudget) != (test.outOf != "") {
				t.Errorf("%+v", got)
			}
			if test.outOf != "" {
				want := fmt.Sprintf(`match condition "%s": validation failed due to running out of cost budget, no `+
					`further validation rules will be run`, test.outOf)
				if got.Err.Error() != want {
					t.Errorf("got  %v\nwant %s", got.Err, want)
				}
			}
			got.Err = nil
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// An expression may cost PerCallLimit, and all of a webhook RuntimeCELCostBudgetMatchConditions,
// which is two and a half of that.
func TestLimits(t *testing.T) {
	endless := costly(7)
	limit := `expression '` + endless + `' resulted in error: operation cancelled: actual cost limit exceeded`
	two := conditions(endless, endless).Match(t.Context(), create(nil))
	if two.Err == nil || two.Errors != 2 ||
		two.Err.Error() != `[match condition "a": `+limit+`, match condition "b": `+limit+`]` {
		t.Errorf("%.300v", two)
	}
	four := conditions(endless, endless, endless, "false").Match(t.Context(), create(nil))
	if four.Failed != "" || four.Errors != 2 || !errors.Is(four.Err, apiservercel.ErrOutOfBudget) ||
		!strings.Contains(four.Err.Error(), `match condition "c": validation failed`) {
		t.Errorf("%.300v", four)
	}

	// The functions of Kubernetes' library cost what they cost in policies ("strict cost"): an
	// authorizer check 350,000.
	if cost := outcomeOf(t, "authorizer.path('/x').check('get').allowed()").cost; cost < 350000 ||
		cost > celconfig.PerCallLimit {
		t.Errorf("cost %d", cost)
	}
}

func outcomeOf(t *testing.T, expression string) *outcome {
	t.Helper()
	run := NewVariables(nil, nil, request, alice, allowing).run(Inputs{Authorizer: true}, 0)
	o := run.outcome(t.Context(), conditions(expression).conditions[0].program)
	if o.err != nil || o.cost == 0 {
		t.Fatalf("%s: %+v", expression, o)
	}
	return o
}

func TestContext(t *testing.T) {
	t.Run("ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("client went away"))
		verdict := conditions("true", "false").Match(ctx, create(pod()))
		if verdict.Matches || verdict.Failed != "" || !errors.Is(verdict.Err, context.Canceled) ||
			verdict.Err.Error() != `match condition "a": expression 'true' was not evaluated: context canceled` {
			t.Errorf("%+v", verdict)
		}
	})
	// What ends the context is a part of the expression, so that it ends during the evaluation for
	// certain.
	t.Run("ends in between", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		v := NewVariables(contentOf(pod()), nil, request, alice, authorizer.AuthorizerFunc(func(context.Context,
			authorizer.Attributes) (authorizer.Decision, string, error) {
			cancel()
			return authorizer.DecisionAllow, "", nil
		}))
		verdict := conditions("authorizer.path('/x').check('get').allowed() && "+costly(5), "false").Match(ctx, v)
		if verdict.Matches || verdict.Failed != "" || verdict.Errors != 1 ||
			!errors.Is(verdict.Err, context.Canceled) ||
			!strings.HasSuffix(verdict.Err.Error(), "' resulted in error: operation interrupted: context canceled") {
			t.Errorf("%+v", verdict)
		}
	})
	t.Run("ends between conditions", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		v := NewVariables(contentOf(pod()), nil, request, alice, authorizer.AuthorizerFunc(func(context.Context,
			authorizer.Attributes) (authorizer.Decision, string, error) {
			cancel()
			return authorizer.DecisionAllow, "", nil
		}))
		verdict := conditions("authorizer.path('/x').check('get').allowed()", "true", "true").Match(ctx, v)
		if verdict.Err == nil ||
			verdict.Err.Error() != `match condition "b": expression 'true' was not evaluated: context canceled` {
			t.Errorf("%+v", verdict)
		}
	})
}

// Conditions that several webhooks have are evaluated once a request, and charged to each webhook's
// budget. What ended with a context is not kept.
func TestOutcomesAreShared(t *testing.T) {
	compiler := NewCompiler()
	asks := []admissionregistrationv1.MatchCondition{{Name: "x",
		Expression: "authorizer.path('/x').check('get').allowed()"}}
	one, two := compiler.Compile(asks), compiler.Compile(asks)
	asked := 0
	v := NewVariables(nil, nil, request, alice,
		authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			asked++
			return authorizer.DecisionAllow, "", nil
		}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if verdict := one.Match(ended, v); verdict.Err == nil {
		t.Errorf("%+v", verdict)
	}
	for _, c := range []*Conditions{one, two, one} {
		if verdict := c.Match(t.Context(), v); !verdict.Matches {
			t.Errorf("%+v", verdict)
		}
	}
	if asked != 1 {
		t.Errorf("the authorizer was asked %d times", asked)
	}
	if verdict := two.match(t.Context(), v, nil, 1000); !errors.Is(verdict.Err, apiservercel.ErrOutOfBudget) {
		t.Errorf("%+v", verdict)
	}
}

// Conditions are shared by all requests.
func TestConcurrency(t *testing.T) {
	compiler := NewCompiler()
	shared := conditions("object.metadata.name == 'web'", "request.userInfo.username == 'alice'",
		"authorizer.requestResource.check('get').allowed()",
		"object.spec.containers.exists(c, c.image.matches('^registry'))", "oldObject == null")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if verdict := shared.Match(t.Context(),
					NewVariables(contentOf(pod()), nil, request, alice, allowing)); !verdict.Matches {
					t.Errorf("%+v", verdict)
				}
				if err := compiler.Check("object.metadata.name == 'web'"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
