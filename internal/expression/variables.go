package expression

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/google/cel-go/common/types"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"
)

// Variables are what expressions see of one request in one API version. Each variable is put into
// CEL's form when an expression first reads it, and kept for the expressions to come. They belong
// to one goroutine.
type Variables struct {
	sources sources

	object, oldObject, request  variable
	namespace                   variable
	authorizer, requestResource variable

	// admissionRequest is what the source of the request returned.
	admissionRequest *admissionv1.AdmissionRequest

	// outcomes are those of the expressions that have been evaluated. Webhooks and policies of one
	// maker often carry the same ones.
	outcomes map[remembered]*outcome

	// ctx is the context of the evaluation going on. CEL's functions are not given one, and
	// authorizer checks need it.
	ctx context.Context
}

// sources are what the variables are made of.
type sources struct {
	object, oldObject Content
	request           func() *admissionv1.AdmissionRequest
	user              user.Info
	authorizer        authorizer.Authorizer
}

// Content returns an object as the JSON it would be, which is how expressions see it: times and
// quantities are strings. (TypedToVal of k8s.io/apiserver/pkg/cel/common would make timestamps of
// times.) It is called when an expression first reads the object, and what it returns is not
// changed; an error becomes that of the expression. Nil is null, as is what returns nil.
type Content func() (map[string]any, error)

// variable is a variable's value once it has been asked for.
type variable struct {
	value any
	known bool
}

// NewVariables returns the variables of a request. No argument is looked at before an expression
// needs it.
//
// The objects are in the version that the expressions are to see, with apiVersion and kind set, and
// nil where there is none: object for a delete, oldObject for a create. They must not change for as
// long as the Variables are in use. Several Variables may have them in common.
//
// request is called once at most, and returns the request as it is sent to the webhook, but for its
// resource, which is that of the API request in upstream's conditions, and not the one that the
// webhook matched. Its uid, object and oldObject are not shown.
//
// user is who authorizer checks are made for. authorizer may be nil; expressions that read it are
// in error then.
func NewVariables(object, oldObject Content, request func() *admissionv1.AdmissionRequest, user user.Info,
	authorizer authorizer.Authorizer) *Variables {
	return &Variables{sources: sources{object: object, oldObject: oldObject, request: request, user: user,
		authorizer: authorizer}}
}

// SetObject has expressions see another object from now on, and forgets what came of those that
// have read the one before.
func (v *Variables) SetObject(object Content) {
	v.sources.object, v.object = object, variable{}
	maps.DeleteFunc(v.outcomes, func(of remembered, _ *outcome) bool { return of.program.reading().object })
}

// prepare returns an object in CEL's form. A value that is an error becomes the error of the
// expression that reads it.
func (c Content) prepare(name string) any {
	if c == nil {
		return nil
	}
	content, err := c()
	switch {
	case err != nil:
		return unprepared(name, err)
	case content == nil:
		return nil
	}
	return content
}

// resolve returns the value of a variable.
func (v *Variables) resolve(name string, in *Inputs) (any, bool) {
	switch name {
	case objectVariable:
		return v.object.get(func() any { return v.sources.object.prepare(name) }), true
	case oldObjectVariable:
		return v.oldObject.get(func() any { return v.sources.oldObject.prepare(name) }), true
	case requestVariable:
		return v.request.get(func() any { return celRequest(v.askRequest()) }), true
	case namespaceVariable:
		if in.Namespace == nil {
			return nil, true
		}
		return v.namespace.get(func() any { return celNamespace(in.Namespace) }), true
	case paramsVariable:
		return in.Params.get(), true
	case authorizerVariable:
		if !in.Authorizer || v.sources.authorizer == nil {
			return nil, false
		}
		return v.authorizer.get(func() any {
			return library.NewAuthorizerVal(v.sources.user, boundAuthorizer{v})
		}), true
	case requestResourceVariable:
		if !in.Authorizer || v.sources.authorizer == nil {
			return nil, false
		}
		return v.requestResource.get(func() any {
			return library.NewResourceAuthorizerVal(v.sources.user, boundAuthorizer{v}, resourceOf{v.askRequest()})
		}), true
	}
	return nil, false
}

func (v *variable) get(value func() any) any {
	if !v.known {
		v.value, v.known = value(), true
	}
	return v.value
}

func (v *Variables) askRequest() *admissionv1.AdmissionRequest {
	if v.admissionRequest == nil {
		v.admissionRequest = v.sources.request()
	}
	return v.admissionRequest
}

// celObject returns an object in CEL's form; null for none.
func celObject(name string, object runtime.Object) any {
	if object == nil || reflect.ValueOf(object).IsNil() {
		return nil
	}
	return celMap(name, object)
}

func celMap(name string, of any) any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
	if err != nil {
		return unprepared(name, err)
	}
	return content
}

func unprepared(name string, err error) any {
	return types.WrapErr(fmt.Errorf("failed to prepare %s variable for evaluation: %w", name, err))
}

// boundAuthorizer asks the authorizer in the context of the evaluation.
type boundAuthorizer struct{ v *Variables }

func (b boundAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return b.v.sources.authorizer.Authorize(b.v.ctx, a)
}
