package policy

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
)

// action is what a kind of policy does when it is evaluated: validations or mutations.
type action interface {
	// prepare compiles its expressions, those that haven't been yet.
	prepare()
}

// definition is what policies of every kind have, ready to be matched and evaluated. It never
// changes.
type definition[E action] struct {
	name string
	// static says that it is of a file, out of the API's reach.
	static   bool
	criteria *matching.Criteria
	// failurePolicy is Fail where it isn't set.
	failurePolicy admissionregistrationv1.FailurePolicyType
	// paramKind is nil for a policy without params.
	paramKind  *admissionregistrationv1.ParamKind
	paramGVK   schema.GroupVersionKind
	conditions *expression.Conditions
	does       E
}

// stated is what a policy says, whichever kind of policy it is.
type stated struct {
	name             string
	matchConstraints *admissionregistrationv1.MatchResources
	failurePolicy    *admissionregistrationv1.FailurePolicyType
	paramKind        *admissionregistrationv1.ParamKind
	variables        []admissionregistrationv1.Variable
	matchConditions  []admissionregistrationv1.MatchCondition
}

// define makes a policy ready; does is called with all but what it returns. Like all that is made
// of configurations it doesn't fail: what is wrong is an error of the requests that it is for.
func define[E action](compiler *expression.Compiler, s stated, static bool,
	does func(*expression.Composition, *definition[E]) E) *definition[E] {
	composition := compiler.Compose(s.variables, s.paramKind != nil)
	d := &definition[E]{
		name:          s.name,
		static:        static,
		criteria:      matching.ForResources(s.matchConstraints),
		failurePolicy: admissionregistrationv1.Fail,
		paramKind:     s.paramKind,
		conditions:    composition.Conditions(s.matchConditions),
	}
	if s.failurePolicy != nil {
		d.failurePolicy = *s.failurePolicy
	}
	if s.paramKind != nil {
		d.paramGVK = schema.FromAPIVersionAndKind(s.paramKind.APIVersion, s.paramKind.Kind)
	}
	d.does = does(composition, d)
	return d
}

// prepare compiles the policy's expressions. One that doesn't compile is an error of the requests.
func (d *definition[E]) prepare() {
	_ = d.conditions.Prepare()
	d.does.prepare()
}

// ignores tells whether the policy lets pass what it can't judge.
func (d *definition[E]) ignores() bool { return d.failurePolicy == admissionregistrationv1.Ignore }

// binding puts a policy in force. It never changes.
type binding struct {
	name, policy string
	static       bool
	criteria     *matching.Criteria
	paramRef     *admissionregistrationv1.ParamRef
	// paramSelector is paramRef's.
	paramSelector paramSelector
	// actions are what becomes of a validation that fails.
	actions []admissionregistrationv1.ValidationAction
}

func newBinding(name, policy string, static bool, resources *admissionregistrationv1.MatchResources,
	ref *admissionregistrationv1.ParamRef, actions []admissionregistrationv1.ValidationAction) *binding {
	b := &binding{name: name, policy: policy, static: static, criteria: matching.ForResources(resources), paramRef: ref,
		actions: actions}
	if ref != nil && ref.Selector != nil {
		b.paramSelector = newParamSelector(ref.Selector)
	}
	return b
}

// configured is what is wrong with a policy's or a binding's configuration, in upstream's words.
func configured(b *binding, err error) error {
	if b == nil {
		return fmt.Errorf("failed to configure policy: %w", err)
	}
	return fmt.Errorf("failed to configure binding: %w", err)
}
