// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/quantity"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/server"
)

// Mutate returns a mutating webhook. Its answer is a patch with the changes of the chain's plugins.
func Mutate(c *chain.Chain) server.FallibleHandler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (server.Response, error) {
		var original runtime.Object
		return answer(ctx, request, func(ctx context.Context, a *attributes) error {
			// A deleted object can't be patched, nor can the options of a CONNECT.
			if object := a.GetObject(); object != nil && request.Operation != admissionv1.Connect {
				original = object.DeepCopyObject()
			}
			return c.Admit(ctx, a, interfaces)
		}, func(a *attributes) server.Response {
			if original == nil {
				return server.Allowed()
			}
			return server.PatchedFrom(request, original, a.GetObject())
		})
	}
}

// Validate returns a validating webhook. It refuses what the chain's plugins refuse.
func Validate(c *chain.Chain) server.FallibleHandler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (server.Response, error) {
		return answer(ctx, request, func(ctx context.Context, a *attributes) error {
			return c.Validate(ctx, a, interfaces)
		}, func(*attributes) server.Response { return server.Allowed() })
	}
}

// interfaces handle objects of the kinds that this build knows.
var interfaces = admission.NewObjectInterfacesFromScheme(scheme.Scheme)

// answer returns the result of a phase of a chain, or passed if it refuses nothing. The error means
// that a plugin couldn't decide: it panicked, or couldn't learn something that it needs.
func answer(ctx context.Context, request *admissionv1.AdmissionRequest,
	phase func(context.Context, *attributes) error, passed func(*attributes) server.Response) (server.Response, error) {
	a, err := attributesOf(request)
	if err != nil {
		return server.Errored(err), nil
	}
	recorder := &warnings{}
	if err := phase(warning.WithWarningRecorder(ctx, recorder), a); err != nil {
		if verdict, _ := plugin.VerdictOf(err); verdict == plugin.Failed {
			return server.Response{}, err
		}
		return a.addAnnotations(server.Errored(err)).WithWarnings(recorder.texts...), nil
	}
	return a.addAnnotations(passed(a)).WithWarnings(recorder.texts...), nil
}

// attributes are the attributes with which the chain is called for a request.
type attributes struct {
	admission.Attributes
	annotations map[string]string
}

// AddAnnotation adds an annotation to the audit event of the asking server.
func (a *attributes) AddAnnotation(key, value string) error {
	return a.AddAnnotationWithLevel(key, value, auditinternal.LevelMetadata)
}

// AddAnnotationWithLevel is AddAnnotation: all annotations of webhooks have the level Metadata.
func (a *attributes) AddAnnotationWithLevel(key, value string, _ auditinternal.Level) error {
	if a.annotations == nil {
		a.annotations = map[string]string{}
	}
	// The asking server prefixes the webhook's name and a slash, and accepts one slash only.
	a.annotations[strings.ReplaceAll(key, "/", ".")] = value
	return nil
}

func (a *attributes) addAnnotations(response server.Response) server.Response {
	for _, key := range slices.Sorted(maps.Keys(a.annotations)) {
		response = response.WithAuditAnnotation(key, a.annotations[key])
	}
	return response
}

// attributesOf returns the attributes of the request. An error is a 400 of the API.
func attributesOf(request *admissionv1.AdmissionRequest) (*attributes, error) {
	kind := schema.GroupVersionKind(request.Kind)
	object, err := decode("object", request.Object.Raw, kind)
	if err != nil {
		return nil, err
	}
	old, err := decode("oldObject", request.OldObject.Raw, kind)
	if err != nil {
		return nil, err
	}
	options, err := optionsOf(request)
	if err != nil {
		return nil, err
	}
	return &attributes{Attributes: admission.NewAttributesRecord(object, old, kind, request.Namespace, request.Name,
		schema.GroupVersionResource(request.Resource), request.SubResource, admission.Operation(request.Operation),
		options, request.DryRun != nil && *request.DryRun, UserOf(&request.UserInfo))}, nil
}

// decode returns an object in the type of its kind, or unstructured if this build has no type for
// it. It returns nil if there is no object.
func decode(field string, raw []byte, kind schema.GroupVersionKind) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	object, err := scheme.Scheme.New(kind)
	if runtime.IsNotRegisteredError(err) {
		object, err = &unstructured.Unstructured{}, nil
	}
	if err == nil && meta.IsListType(object) {
		err = errors.New("an API server asks about each object of a list") // a few bytes may be a large object
	}
	if err == nil {
		err = quantity.CheckJSON(raw, reflect.New(reflect.TypeOf(object).Elem()).Interface())
	}
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("request.%s: Invalid value: decoding a %s: %v", field,
			kind.Kind, err))
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return object, nil
}

// optionsOf returns the options of the request, in the type of its operation, or nil for none.
func optionsOf(request *admissionv1.AdmissionRequest) (runtime.Object, error) {
	raw := request.Options.Raw
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var options runtime.Object
	switch request.Operation {
	case admissionv1.Create:
		options = &metav1.CreateOptions{}
	case admissionv1.Update:
		options = &metav1.UpdateOptions{}
	case admissionv1.Delete:
		options = &metav1.DeleteOptions{}
	default:
		return nil, nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, options); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("request.options: Invalid value: decoding %T: %v", options,
			err))
	}
	return options, nil
}

// UserOf returns the user who made the request of a review.
func UserOf(info *authenticationv1.UserInfo) user.Info {
	who := &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups}
	if len(info.Extra) > 0 {
		who.Extra = make(map[string][]string, len(info.Extra))
		for key, values := range info.Extra {
			who.Extra[key] = values
		}
	}
	return who
}

// warnings collects the warnings of plugins for the client.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// AddWarning implements warning.Recorder. It drops the agent, which clients don't see.
func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}
