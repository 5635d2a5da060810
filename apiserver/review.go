// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	extensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/internal/quantity"
	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin"
)

// This file holds what package review alone needs of a server in its own process.

// Handler returns a handler for requests of this process. The user is the one in the request's
// context (request.WithUser), without authentication. authorize says whether the user needs the
// right to make the request. Everything else is as for every request: it has an audit ID, warnings,
// a decision. Call it once the server is ready.
func (s *Server) Handler(authorize bool) http.Handler {
	handler := s.writes(s.handler)
	if authorize {
		handler = genericapifilters.WithAuthorization(handler, s.authorizer, legacyscheme.Codecs)
	}
	handler = genericapifilters.WithRequestInfo(handler, s.requestInfo)
	return genericapifilters.WithAuditInit(genericapifilters.WithWarningRecorder(handler))
}

// Authorizer returns the authorizer of the server's requests.
func (s *Server) Authorizer() authorizer.Authorizer { return s.authorizer }

// Cached returns the kinds of which the server has all objects in informers: those that its plugins
// and its authorizers have asked for, in the versions that they read. Call it once the server is
// ready.
func (s *Server) Cached() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for object := range s.cached() {
		if kind, ok := s.kindOf(object); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// AwaitKind returns once plugins know which resource a custom kind is of, or once ctx ends, with
// its error. Otherwise they look it up again a second after they have missed it.
func (s *Server) AwaitKind(ctx context.Context, kind schema.GroupVersionKind) error {
	known := func() bool {
		_, err := s.kinds.RESTMapping(kind.GroupKind(), kind.Version)
		return err == nil
	}
	if known() {
		return nil
	}
	return plugin.Until(ctx, func() bool {
		s.kinds.Reset()
		return known()
	})
}

type exemptKey struct{}

// WithoutAdmission is a context for requests to Handler that are not to be admitted, but stored as
// they are, once they have their defaults and are valid: objects that a server is to have from the
// start, as they have been admitted elsewhere. A quota has the usage that is sent with it, and is
// taken to have other objects of the start in it.
func WithoutAdmission(ctx context.Context) context.Context {
	return quota.WithStatedUsage(context.WithValue(ctx, exemptKey{}, true))
}

// admissionExempt reports whether the request has such a context. No client can make it.
func admissionExempt(ctx context.Context) bool {
	exempt, _ := ctx.Value(exemptKey{}).(bool)
	return exempt
}

type unvalidatedKey struct{}

// WithoutValidation returns a context for requests to Handler that run the mutating phase only.
// They store objects as plugins change them, without charging a quota.
func WithoutValidation(ctx context.Context) context.Context {
	return context.WithValue(ctx, unvalidatedKey{}, true)
}

// validationExempt reports whether the request has such a context. No client can make it.
func validationExempt(ctx context.Context) bool {
	exempt, _ := ctx.Value(unvalidatedKey{}).(bool)
	return exempt
}

// Storable returns an object of a built-in kind, given as the API writes it in JSON, as etcd has
// it: in the version and the format of the value that is stored of it. Of a custom resource the
// error is one that runtime.IsNotRegisteredError reports.
func (s *Server) Storable(document, stored []byte) ([]byte, error) {
	mediaType := runtime.ContentTypeJSON
	if quantity.IsProtobuf(stored) {
		mediaType = runtime.ContentTypeProtobuf
	}
	var notFound error
	for _, codecs := range s.builtIn() {
		_, kind, err := codecs.UniversalDeserializer().Decode(stored, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			notFound = err
			continue
		} else if err != nil {
			return nil, err
		}
		object, _, err := codecs.UniversalDecoder().Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		return runtime.Encode(codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()), object)
	}
	return nil, notFound
}

// Converted returns an object of a built-in kind, in JSON, in another version, or in another group
// that has the kind.
func (s *Server) Converted(document []byte, to schema.GroupVersionKind) ([]byte, error) {
	var notFound error
	for _, codecs := range s.builtIn() {
		object, _, err := codecs.UniversalDecoder().Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			notFound = err
			continue
		} else if err != nil {
			return nil, err
		}
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
		return runtime.Encode(codecs.EncoderForVersion(info.Serializer, to.GroupVersion()), object)
	}
	return nil, notFound
}

// builtIn returns the codecs of all kinds that need no CustomResourceDefinition.
func (s *Server) builtIn() []serializer.CodecFactory {
	return []serializer.CodecFactory{legacyscheme.Codecs, aggregatorscheme.Codecs, extensionsserver.Codecs,
		s.options.Former.Kinds().Codecs}
}

// CheckFields returns the paths of the fields that an object has and its kind doesn't, as the server finds
// them when it decodes the object strictly. resource is the object's. The error says which field has a value of
// another type than its kind's, if one has: then no paths are returned.
func (s *Server) CheckFields(resource schema.GroupVersionResource, object *unstructured.Unstructured) ([]string, error) {
	for _, scheme := range s.builtInSchemes() {
		if typed, err := scheme.New(object.GroupVersionKind()); err == nil {
			return checkFields(object.Object, typed)
		}
	}
	metadata := &struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}{}
	unknown, err := checkFields(map[string]any{"metadata": object.Object["metadata"]}, metadata)
	return append(unknown, s.schemas.unknownFields(resource, object)...), err
}

// checkFields returns the paths of the fields that a Go type doesn't have. The error is that of a value of
// another type.
func checkFields(fields map[string]any, typed any) ([]string, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	strict, err := kjson.UnmarshalStrict(data, typed, kjson.DisallowUnknownFields)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, err := range strict {
		if unknown := kjson.FieldError(nil); errors.As(err, &unknown) {
			paths = append(paths, unknown.FieldPath())
		}
	}
	return paths, nil
}

// builtInSchemes returns the schemes of these kinds.
func (s *Server) builtInSchemes() []*runtime.Scheme {
	return []*runtime.Scheme{legacyscheme.Scheme, aggregatorscheme.Scheme, extensionsserver.Scheme,
		s.options.Former.Kinds().Scheme}
}
