package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"

	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
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
)

// celEnvironment is what expressions are compiled against. It takes some 50 ms to make, and so is
// made when the first expression is compiled, and once. It is that of stored expressions, which
// knows all that any version of Kubernetes has accepted.
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	request, namespace := requestType(), namespaceType()
	set,
		err := environment.MustBaseEnvSet(
		environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(objectVariable, cel.DynType),
			cel.Variable(oldObjectVariable, cel.DynType),
			cel.Variable(requestVariable, request.CelType()),
			cel.Variable(namespaceVariable, namespace.CelType()),
			cel.Variable(authorizerVariable, library.AuthorizerType),
			cel.Variable(requestResourceVariable, library.ResourceCheckType),
		},
		DeclTypes: []*apiservercel.DeclType{namespace, request},
	})
	if err != nil {
		return nil, fmt.Errorf("environment misconfigured: %w", err)
	}
	return set.StoredExpressionsEnv(), nil
})

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
