// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/cel"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// TypeChecker checks the expressions of a policy against the types of its objects. It finds errors
// that evaluation finds only with an object at hand, because for evaluation object and params have
// any type. It is for one goroutine.
type TypeChecker struct {
	*checker
	object, params *apiservercel.DeclType
}

// NewTypeChecker returns a TypeChecker for objects and params of these types; nil is any type.
// hasParams reports whether params is declared. It takes about 50 ms.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go#buildEnvSet a9ea9bf4
func NewTypeChecker(object, params *apiservercel.DeclType, hasParams bool) (*TypeChecker, error) {
	request, namespace := requestType(), namespaceType()
	c := &checker{variables: apiservercel.NewObjectType("kubernetes.variables", noFields)}
	options := environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(requestVariable, request.CelType()),
			cel.Variable(namespaceVariable, namespace.CelType()),
			cel.Variable(variablesVariable, c.variables.CelType()),
			// As upstream has it, without authorizer.requestResource.
			cel.Variable(authorizerVariable, library.AuthorizerType),
		},
		DeclTypes: []*apiservercel.DeclType{namespace, request, c.variables},
	}
	declare := func(t *apiservercel.DeclType, variables ...string) {
		celType := cel.DynType
		if t != nil {
			celType = t.CelType()
			options.DeclTypes = append(options.DeclTypes, t)
		}
		for _, v := range variables {
			options.EnvOptions = append(options.EnvOptions, cel.Variable(v, celType))
		}
	}
	declare(object, objectVariable, oldObjectVariable)
	if hasParams {
		declare(params, paramsVariable)
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(options)
	if err != nil {
		return nil, err
	}
	c.env = set.StoredExpressionsEnv()
	return &TypeChecker{c, object, params}, nil
}

// Check returns an error for each of a policy's expressions: a *TypeError, or nil if there is
// nothing wrong. Errors in variables are not reported: to the expressions that read it, such a
// variable has any type.
func (t *TypeChecker) Check(variables []admissionregistrationv1.Variable, expressions ...string) []error {
	defer t.declareVariables(variables)()
	wrong := make([]error, len(expressions))
	for i, text := range expressions {
		_, wrong[i] = t.typeOf(text)
	}
	return wrong
}

// declareVariables declares a policy's variables, until the result is called.
func (t *TypeChecker) declareVariables(variables []admissionregistrationv1.Variable) (end func()) {
	fields := map[string]*apiservercel.DeclField{}
	t.variables.Fields = fields
	for _, v := range variables {
		result, _ := t.typeOf(v.Expression)
		fields[v.Name] = apiservercel.NewDeclField(v.Name, declType(result), true, nil, nil)
	}
	return func() { t.variables.Fields = noFields }
}

// TypeError says what is wrong with an expression.
type TypeError struct {
	// Issues are the errors, in order.
	Issues []TypeIssue
	text   string
}

// TypeIssue is one error in an expression. Line counts from 1. Column counts code points from 0.
type TypeIssue struct {
	Line, Column int
	Message      string
}

// Error shows each issue below its line of the expression.
func (e *TypeError) Error() string { return e.text }

// typeOf returns the type of an expression's result. The error is a *TypeError.
func (t *TypeChecker) typeOf(text string) (*cel.Type, error) {
	ast, issues := t.env.Compile(text)
	if issues != nil {
		err := &TypeError{text: issues.String()}
		for _, issue := range issues.Errors() {
			err.Issues = append(err.Issues,
				TypeIssue{Line: issue.Location.Line(), Column: issue.Location.Column(), Message: issue.Message})
		}
		return nil, err
	}
	return ast.OutputType(), nil
}
