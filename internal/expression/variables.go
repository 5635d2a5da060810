// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// Variables holds what expressions read of one request in one API version. Each variable is
// converted for CEL when an expression first reads it, and kept for later expressions. It is for
// one goroutine.
type Variables struct {
	sources sources

	object, oldObject, request  variable
	namespace                   variable
	authorizer, requestResource variable

	// admissionRequest is the result of sources.request.
	admissionRequest *admissionv1.AdmissionRequest

	// outcomes holds the results of expressions. Webhooks and policies from one vendor often have
	// the same expressions.
	outcomes map[outcomeKey]*outcome

	// ctx is the context of the evaluation in progress. CEL doesn't pass it to functions, and
	// authorizer checks need it.
	ctx context.Context
}

// sources holds what the variables are made from.
type sources struct {
	object, oldObject Content
	request           func() *admissionv1.AdmissionRequest
	user              user.Info
	authorizer        authorizer.UnconditionalAuthorizer
}

// Content returns an object as JSON, which is what expressions read: times and quantities are
// strings. (TypedToVal of k8s.io/apiserver/pkg/cel/common would convert times to timestamps.) It is
// called when an expression first reads the object. An error becomes an error of the expression. A
// nil Content and a nil result are null. The result is not changed.
type Content func() (map[string]any, error)

// variable is a variable's value, once it is known.
type variable struct {
	value any
	known bool
}

// NewVariables returns the variables of a request. Arguments are used only when an expression needs
// them.
//
// The objects are in the version that the expressions are to see, with apiVersion and kind set.
// object is nil for a delete, oldObject for a create. They must not change while the Variables are
// in use. Several Variables may share them.
//
// request is called at most once. It returns the request as it is sent to the webhook, except for
// the resource: as in upstream's conditions, that is the resource of the API request and not the
// one that the webhook matched. uid, object and oldObject are not used.
//
// authorizer makes its checks for user. It may be nil; then expressions that read authorizer fail.
func NewVariables(object, oldObject Content, request func() *admissionv1.AdmissionRequest, user user.Info,
	authorizer authorizer.UnconditionalAuthorizer) *Variables {
	return &Variables{sources: sources{object: object, oldObject: oldObject, request: request, user: user,
		authorizer: authorizer}}
}

// SetObject replaces the object, and drops the results of expressions that have read the old one.
func (v *Variables) SetObject(object Content) {
	v.sources.object, v.object = object, variable{}
	maps.DeleteFunc(v.outcomes, func(key outcomeKey, _ *outcome) bool { return key.program.dependencies().object })
}

// toCEL returns an object converted for CEL. If the result is a CEL error, it becomes the error of
// the expression that reads it.
func (c Content) toCEL(name string) any {
	if c == nil {
		return nil
	}
	content, err := c()
	switch {
	case err != nil:
		return conversionError(name, err)
	case content == nil:
		return nil
	}
	return content
}

// resolve returns the value of a variable.
func (v *Variables) resolve(name string, in *Inputs) (any, bool) {
	switch name {
	case objectVariable:
		return v.object.get(func() any { return v.sources.object.toCEL(name) }), true
	case oldObjectVariable:
		return v.oldObject.get(func() any { return v.sources.oldObject.toCEL(name) }), true
	case requestVariable:
		return v.request.get(func() any { return celRequest(v.getRequest()) }), true
	case namespaceVariable:
		if in.Namespace == nil {
			return nil, true
		}
		return v.namespace.get(func() any { return celNamespace(in.Namespace) }), true
	case paramsVariable:
		return in.Params.celValue(), true
	case authorizerVariable:
		if !in.Authorizer || v.sources.authorizer == nil {
			return undefined(name), true
		}
		return v.authorizer.get(func() any {
			return library.NewAuthorizerVal(v.sources.user, contextAuthorizer{v})
		}), true
	case requestResourceVariable:
		if !in.Authorizer || v.sources.authorizer == nil {
			return undefined(name), true
		}
		return v.requestResource.get(func() any {
			return library.NewResourceAuthorizerVal(v.sources.user, contextAuthorizer{v},
				resourceAttributes{v.getRequest()})
		}), true
	}
	return nil, false
}

// undefined returns the error of an expression that reads a variable without a value. A comprehension
// in a comprehension looks twice for a name that isn't found, so 40 of them would never end.
func undefined(name string) any { return types.NewErr("no such attribute(s): %s", name) }

func (v *variable) get(value func() any) any {
	if !v.known {
		v.value, v.known = value(), true
	}
	return v.value
}

func (v *Variables) getRequest() *admissionv1.AdmissionRequest {
	if v.admissionRequest == nil {
		v.admissionRequest = v.sources.request()
	}
	return v.admissionRequest
}

// celObject returns an object converted for CEL, null for none.
func celObject(name string, object runtime.Object) any {
	if object == nil || reflect.ValueOf(object).IsNil() {
		return nil
	}
	return celMap(name, object)
}

func celMap(name string, of any) any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
	if err != nil {
		return conversionError(name, err)
	}
	return content
}

func conversionError(name string, err error) any {
	return types.WrapErr(fmt.Errorf("failed to prepare %s variable for evaluation: %w", name, err))
}

// contextAuthorizer passes the context of the evaluation to the authorizer.
type contextAuthorizer struct{ v *Variables }

func (b contextAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return b.v.sources.authorizer.Authorize(b.v.ctx, a)
}
