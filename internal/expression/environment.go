package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"

	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// The variables of an expression.
const (
	objectVariable          = "object"
	oldObjectVariable       = "oldObject"
	requestVariable         = "request"
	namespaceVariable       = "namespaceObject"
	authorizerVariable      = "authorizer"
	requestResourceVariable = "authorizer.requestResource"
	// These are for policies only.
	paramsVariable    = "params"
	variablesVariable = "variables"
)

// declared is what an environment declares besides object, oldObject, request and namespaceObject.
type declared struct{ variables, params, authorizer, patches bool }

// checker is an environment to check expressions in, for one at a time: the type of variables is
// that of the expression's policy.
type checker struct {
	env       *cel.Env
	variables *apiservercel.DeclType
	// functions are all that env has.
	functions map[string]*decls.FunctionDecl
}

// checkers are those that nobody uses, by what they declare. The first one takes some 50 ms to
// make, and so is made when the first expression is compiled. Further ones share what is expensive.
var checkers = struct {
	sync.Mutex
	free map[declared][]*checker
}{free: map[declared][]*checker{}}

// noFields are those of an object without any; nil would make it no object.
var noFields = map[string]*apiservercel.DeclField{}

// check has an expression checked by use. Several may be at the same time: none waits for another.
func check(d declared, use func(*checker) error) error {
	checkers.Lock()
	var c *checker
	if free := checkers.free[d]; len(free) > 0 {
		c, checkers.free[d] = free[len(free)-1], free[:len(free)-1]
	}
	checkers.Unlock()
	if c == nil {
		var err error
		if c, err = newChecker(d); err != nil {
			return fmt.Errorf("unexpected error loading CEL environment: environment misconfigured: %w", err)
		}
	}
	err := use(c)
	c.variables.Fields = noFields
	checkers.Lock()
	checkers.free[d] = append(checkers.free[d], c)
	checkers.Unlock()
	return err
}

// newChecker makes the environment of stored expressions, which knows all that any version of
// Kubernetes has accepted.
//
// Source: createEnvForOpts in k8s.io/apiserver/pkg/admission/plugin/cel/compile.go, and
// NewCompositedCompiler in composition.go there.
func newChecker(d declared) (*checker, error) {
	request, namespace := requestType(), namespaceType()
	c := &checker{variables: apiservercel.NewObjectType("kubernetes.variables", noFields)}
	options := environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(objectVariable, cel.DynType),
			cel.Variable(oldObjectVariable, cel.DynType),
			cel.Variable(requestVariable, request.CelType()),
			cel.Variable(namespaceVariable, namespace.CelType()),
		},
		DeclTypes: []*apiservercel.DeclType{namespace, request},
	}
	declare := func(variables ...cel.EnvOption) { options.EnvOptions = append(options.EnvOptions, variables...) }
	if d.variables {
		declare(cel.Variable(variablesVariable, c.variables.CelType()))
		options.DeclTypes = append(options.DeclTypes, c.variables)
	}
	if d.params {
		declare(cel.Variable(paramsVariable, cel.DynType))
	}
	if d.authorizer {
		declare(cel.Variable(authorizerVariable, library.AuthorizerType),
			cel.Variable(requestResourceVariable, library.ResourceCheckType))
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(options)
	if err == nil && d.patches {
		set, err = set.Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions: []cel.EnvOption{
				common.ResolverEnvOption(&objectTypes{}),
				environment.UnversionedLib(library.JSONPatch),
			},
		})
	}
	if err != nil {
		return nil, err
	}
	c.env = set.StoredExpressionsEnv()
	c.functions = c.env.Functions()
	return c, nil
}

// requestType is the type of the variable request: AdmissionRequest of admission.k8s.io without
// uid, object and oldObject.
//
// Source: BuildRequestType in k8s.io/apiserver/pkg/admission/plugin/cel/compile.go.
func requestType() *apiservercel.DeclType {
	kind := object("kubernetes.GroupVersionKind", fields{
		"group": required(text), "version": required(text), "kind": required(text),
	})
	resource := object("kubernetes.GroupVersionResource", fields{
		"group": required(text), "version": required(text), "resource": required(text),
	})
	user := object("kubernetes.UserInfo", fields{
		"username": optional(text),
		"uid":      optional(text),
		"groups":   optional(texts),
		"extra":    optional(apiservercel.NewMapType(text, texts, -1)),
	})
	return object("kubernetes.AdmissionRequest", fields{
		"kind":               required(kind),
		"resource":           required(resource),
		"subResource":        optional(text),
		"requestKind":        required(kind),
		"requestResource":    required(resource),
		"requestSubResource": optional(text),
		"name":               required(text),
		"namespace":          optional(text),
		"operation":          required(text),
		"userInfo":           required(user),
		"dryRun":             optional(apiservercel.BoolType),
		"options":            optional(apiservercel.DynType),
	})
}

// namespaceType is the type of the variable namespaceObject.
//
// Source: BuildNamespaceType in k8s.io/apiserver/pkg/admission/plugin/cel/compile.go.
func namespaceType() *apiservercel.DeclType {
	labels := apiservercel.NewMapType(text, text, -1)
	condition := object("kubernetes.NamespaceCondition", fields{
		"status":             required(text),
		"type":               required(text),
		"lastTransitionTime": required(apiservercel.TimestampType),
		"message":            required(text),
		"reason":             required(text),
	})
	return object("kubernetes.Namespace", fields{
		"metadata": required(object("kubernetes.NamespaceMetadata", fields{
			"name":                       required(text),
			"generateName":               required(text),
			"namespace":                  required(text),
			"labels":                     required(labels),
			"annotations":                required(labels),
			"UID":                        required(text),
			"creationTimestamp":          required(apiservercel.TimestampType),
			"deletionGracePeriodSeconds": required(apiservercel.IntType),
			"deletionTimestamp":          required(apiservercel.TimestampType),
			"generation":                 required(apiservercel.IntType),
			"resourceVersion":            required(text),
			"finalizers":                 required(texts),
		})),
		"spec": required(object("kubernetes.NamespaceSpec", fields{"finalizers": required(texts)})),
		"status": required(object("kubernetes.NamespaceStatus", fields{
			"conditions": required(apiservercel.NewListType(condition, -1)),
			"phase":      required(text),
		})),
	})
}

var (
	text  = apiservercel.StringType
	texts = apiservercel.NewListType(apiservercel.StringType, -1)
)

// fields are the fields of an object type, their names still to be filled in from the key.
type fields map[string]*apiservercel.DeclField

func required(t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField("", t, true, nil, nil)
}

func optional(t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField("", t, false, nil, nil)
}

func object(name string, f fields) *apiservercel.DeclType {
	for fieldName, field := range f {
		field.Name = fieldName
	}
	return apiservercel.NewObjectType(name, f)
}
