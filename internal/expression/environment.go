// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// The names of the variables.
const (
	objectVariable          = "object"
	oldObjectVariable       = "oldObject"
	requestVariable         = "request"
	namespaceVariable       = "namespaceObject"
	authorizerVariable      = "authorizer"
	requestResourceVariable = "authorizer.requestResource"
	// Only policies have these.
	paramsVariable    = "params"
	variablesVariable = "variables"
)

// declarations says what an environment declares in addition to object, oldObject, request and
// namespaceObject.
type declarations struct{ variables, params, authorizer, patches bool }

// checker is an environment to check expressions in, one at a time: the type of variables is set to
// that of the expression's policy.
type checker struct {
	env       *cel.Env
	variables *apiservercel.DeclType
	// functions holds all functions of env.
	functions map[string]*decls.FunctionDecl
}

// checkers holds the checkers that are not in use. The first one takes about 50 ms to make, so it
// is made when the first expression is compiled. Later ones share the expensive parts.
var checkers = struct {
	sync.Mutex
	free map[declarations][]*checker
}{free: map[declarations][]*checker{}}

// noFields are the fields of an object without any. With nil, the type would not be an object.
var noFields = map[string]*apiservercel.DeclField{}

// withChecker calls use with a checker. Concurrent calls don't wait for each other.
func withChecker(d declarations, use func(*checker) error) error {
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

// newChecker returns a checker with the environment of stored expressions, which knows everything
// that any version of Kubernetes has accepted.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go#createEnvForOpts 3fe63601
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/composition.go#NewCompositedCompiler ba75599d
func newChecker(d declarations) (*checker, error) {
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

// requestType returns the type of the variable request: AdmissionRequest of admission.k8s.io
// without uid, object and oldObject.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go#BuildRequestType 909abbe6
func requestType() *apiservercel.DeclType {
	kind := newObjectType("kubernetes.GroupVersionKind", fieldTypes{
		"group": requiredField(stringType), "version": requiredField(stringType), "kind": requiredField(stringType),
	})
	resource := newObjectType("kubernetes.GroupVersionResource", fieldTypes{
		"group": requiredField(stringType), "version": requiredField(stringType), "resource": requiredField(stringType),
	})
	user := newObjectType("kubernetes.UserInfo", fieldTypes{
		"username": optionalField(stringType),
		"uid":      optionalField(stringType),
		"groups":   optionalField(stringsType),
		"extra":    optionalField(apiservercel.NewMapType(stringType, stringsType, -1)),
	})
	return newObjectType("kubernetes.AdmissionRequest", fieldTypes{
		"kind":               requiredField(kind),
		"resource":           requiredField(resource),
		"subResource":        optionalField(stringType),
		"requestKind":        requiredField(kind),
		"requestResource":    requiredField(resource),
		"requestSubResource": optionalField(stringType),
		"name":               requiredField(stringType),
		"namespace":          optionalField(stringType),
		"operation":          requiredField(stringType),
		"userInfo":           requiredField(user),
		"dryRun":             optionalField(apiservercel.BoolType),
		"options":            optionalField(apiservercel.DynType),
	})
}

// namespaceType returns the type of the variable namespaceObject.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go#BuildNamespaceType 2c56d1f2
func namespaceType() *apiservercel.DeclType {
	labels := apiservercel.NewMapType(stringType, stringType, -1)
	condition := newObjectType("kubernetes.NamespaceCondition", fieldTypes{
		"status":             requiredField(stringType),
		"type":               requiredField(stringType),
		"lastTransitionTime": requiredField(apiservercel.TimestampType),
		"message":            requiredField(stringType),
		"reason":             requiredField(stringType),
	})
	return newObjectType("kubernetes.Namespace", fieldTypes{
		"metadata": requiredField(newObjectType("kubernetes.NamespaceMetadata", fieldTypes{
			"name":                       requiredField(stringType),
			"generateName":               requiredField(stringType),
			"namespace":                  requiredField(stringType),
			"labels":                     requiredField(labels),
			"annotations":                requiredField(labels),
			"UID":                        requiredField(stringType),
			"creationTimestamp":          requiredField(apiservercel.TimestampType),
			"deletionGracePeriodSeconds": requiredField(apiservercel.IntType),
			"deletionTimestamp":          requiredField(apiservercel.TimestampType),
			"generation":                 requiredField(apiservercel.IntType),
			"resourceVersion":            requiredField(stringType),
			"finalizers":                 requiredField(stringsType),
		})),
		"spec": requiredField(newObjectType("kubernetes.NamespaceSpec", fieldTypes{"finalizers": requiredField(stringsType)})),
		"status": requiredField(newObjectType("kubernetes.NamespaceStatus", fieldTypes{
			"conditions": requiredField(apiservercel.NewListType(condition, -1)),
			"phase":      requiredField(stringType),
		})),
	})
}

var (
	stringType  = apiservercel.StringType
	stringsType = apiservercel.NewListType(apiservercel.StringType, -1)
)

// fieldTypes holds the fields of an object type by name. newObjectType sets the name in each field.
type fieldTypes map[string]*apiservercel.DeclField

func requiredField(t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField("", t, true, nil, nil)
}

func optionalField(t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField("", t, false, nil, nil)
}

func newObjectType(name string, f fieldTypes) *apiservercel.DeclType {
	for fieldName, field := range f {
		field.Name = fieldName
	}
	return apiservercel.NewObjectType(name, f)
}
