package expression

import (
	"github.com/google/cel-go/cel"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// Typed checks the expressions of policies against the types of what they will see. It finds what
// evaluation, to which object and params are of any type, would only find with an object at hand.
// It is for one goroutine.
type Typed struct{ *checker }

// NewTyped returns a Typed for objects and params of these types; nil is any type. hasParams says
// that params is declared. It takes some 50 ms.
//
// Source: buildEnvSet in k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go.
func NewTyped(object, params *apiservercel.DeclType, hasParams bool) (*Typed, error) {
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
		of := cel.DynType
		if t != nil {
			of = t.CelType()
			options.DeclTypes = append(options.DeclTypes, t)
		}
		for _, v := range variables {
			options.EnvOptions = append(options.EnvOptions, cel.Variable(v, of))
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
	return &Typed{c}, nil
}

// Check returns what is wrong with each of a policy's expressions, a *TypeError or nil for nothing.
// What is wrong with a variable is not told: whoever reads it reads something of any type.
func (t *Typed) Check(variables []admissionregistrationv1.Variable, expressions ...string) []error {
	fields := map[string]*apiservercel.DeclField{}
	t.variables.Fields = fields
	defer func() { t.variables.Fields = noFields }()
	for _, v := range variables {
		of, _ := t.typeOf(v.Expression)
		fields[v.Name] = apiservercel.NewDeclField(v.Name, declType(of), true, nil, nil)
	}
	wrong := make([]error, len(expressions))
	for i, text := range expressions {
		_, wrong[i] = t.typeOf(text)
	}
	return wrong
}

// TypeError is what is wrong with an expression.
type TypeError struct {
	// Issues are what is wrong, in order.
	Issues []TypeIssue
	text   string
}

// TypeIssue is one thing that is wrong with an expression. Line counts from 1, Column, which is in
// code points, from 0.
type TypeIssue struct {
	Line, Column int
	Message      string
}

// Error shows each issue below its line of the expression.
func (e *TypeError) Error() string { return e.text }

// typeOf returns what an expression evaluates to. The error is a *TypeError.
func (t *Typed) typeOf(text string) (*cel.Type, error) {
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
