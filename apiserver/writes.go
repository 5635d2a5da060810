// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	extensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// Writes does for the writes of a resource, or of a subresource, what the server's handler and registry
// do before and between the phases of admission. It is for judging writes without storage. It is safe for
// concurrent use.
type Writes struct {
	// Kind is the kind of the objects that are sent.
	Kind schema.GroupVersionKind
	// Interfaces is what the handler passes to admission plugins.
	Interfaces admission.ObjectInterfaces

	decoder runtime.Decoder
	custom  bool                    // whether objects are unstructured
	create  rest.RESTCreateStrategy // nil if nothing is prepared
	update  rest.RESTUpdateStrategy // nil if nothing is prepared
	// store has the hooks of Services; nil for all others.
	store *genericregistry.Store
}

// Admission returns the admission control of the server's writes.
func (s *Server) Admission() Admission { return s.admission.chain }

// Writes returns the Writes of a resource, or of its subresource if that isn't empty. It sends the server
// one request, so the caller should keep the result. Call it once the server is ready.
func (s *Server) Writes(ctx context.Context, resource schema.GroupVersionResource, subresource string) (*Writes,
	error) {
	scope, err := s.scopeOf(ctx, resource)
	if err != nil {
		return nil, err
	}
	if scope.HubGroupVersion.Version != runtime.APIVersionInternal {
		return s.customWrites(scope, subresource)
	}
	w := &Writes{Kind: scope.Kind, Interfaces: scope}
	served := resource
	if subresource != "" {
		served.Resource += "/" + subresource
	}
	stored, ok := s.served[served]
	switch {
	case ok:
		if w.Kind, err = stored.kind(resource.GroupVersion()); err != nil {
			return nil, err
		}
		w.takeStrategies(stored.storage)
	case subresource != "":
		if subresource != "status" {
			return nil, fmt.Errorf("%s of %s have no subresource %s", resource.Resource, resource.GroupVersion(),
				subresource)
		}
	case resource.Group == "apiextensions.k8s.io":
		strategy := customresourcedefinition.NewStrategy(extensionsserver.Scheme)
		w.create, w.update = strategy, strategy
	case resource.Group == "apiregistration.k8s.io":
		strategy := apiservice.NewStrategy(aggregatorscheme.Scheme)
		w.create, w.update = strategy, strategy
	}
	w.decoder, err = decoderOf(scope, schema.GroupVersion{Group: w.Kind.Group, Version: runtime.APIVersionInternal})
	return w, err
}

// customWrites returns the Writes of a custom resource, or of its subresource.
func (s *Server) customWrites(scope *handlers.RequestScope, subresource string) (_ *Writes, err error) {
	w := &Writes{Kind: scope.Kind, Interfaces: scope}
	if subresource == "scale" {
		w.Kind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
		w.Interfaces = admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
		w.decoder = legacyscheme.Codecs.UniversalDecoder(schema.GroupVersion{Group: w.Kind.Group,
			Version: runtime.APIVersionInternal})
		return w, nil
	}
	if w.create, w.update, err = s.schemas.strategies(scope.Resource, scope.Kind, subresource); err != nil {
		return nil, err
	}
	w.custom = true
	w.decoder, err = decoderOf(scope, scope.HubGroupVersion)
	return w, err
}

// decoderOf returns the decoder with which a handler reads JSON into the version in which it holds
// objects.
func decoderOf(scope *handlers.RequestScope, hub schema.GroupVersion) (runtime.Decoder, error) {
	info, ok := runtime.SerializerInfoForMediaType(scope.Serializer.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, fmt.Errorf("%s can't be read from JSON", scope.Kind)
	}
	return scope.Serializer.DecoderToVersion(info.Serializer, hub), nil
}

// takeStrategies takes the strategies of a registry, if it shows them. Most registries of subresources
// don't.
func (w *Writes) takeStrategies(storage rest.Storage) {
	if store, ok := storage.(genericregistry.GenericStore); ok {
		w.create, w.update = store.GetCreateStrategy(), store.GetUpdateStrategy()
	}
	if services, ok := storage.(*servicestorage.REST); ok {
		w.store = services.Store
	}
}

// Decode returns an object that was sent, with its defaults, in the form in which the server holds it.
func (w *Writes) Decode(document []byte) (runtime.Object, error) {
	kind := w.Kind
	var into runtime.Object
	if w.custom {
		into = &unstructured.Unstructured{}
	}
	object, _, err := w.decoder.Decode(document, &kind, into)
	return object, err
}

// PrepareCreate makes of an object after the mutating phase what is validated: it has a name and the
// fields that the server sets, and is valid. The context has the namespace and the RequestInfo.
//
// Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go#Store.create 11039017
func (w *Writes) PrepareCreate(ctx context.Context, object runtime.Object) error {
	if w.create == nil {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	rest.FillObjectMetaSystemFields(accessor)
	if accessor.GetGenerateName() != "" && accessor.GetName() == "" {
		accessor.SetName(w.create.GenerateName(accessor.GetGenerateName()))
	}
	if w.store != nil {
		finish, err := w.store.BeginCreate(ctx, object, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		defer finish(ctx, false)
	}
	return rest.BeforeCreate(w.create, ctx, object)
}

// PrepareUpdate makes of an object after the mutating phase what is validated; see PrepareCreate. An
// object without a resourceVersion gets that of the old object. Conflicts are not found.
//
// Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go#Store.Update b290ff79
func (w *Writes) PrepareUpdate(ctx context.Context, object, old runtime.Object) error {
	if w.update == nil {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	oldAccessor, err := meta.Accessor(old)
	if err != nil {
		return err
	}
	if accessor.GetResourceVersion() == "" {
		accessor.SetResourceVersion(oldAccessor.GetResourceVersion())
	}
	if accessor.GetResourceVersion() == "" { // an object of a file, which validation requires to have one
		accessor.SetResourceVersion("1")
		defer accessor.SetResourceVersion("")
	}
	if w.store != nil {
		finish, err := w.store.BeginUpdate(ctx, object, old, &metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		defer finish(ctx, false)
	}
	return rest.BeforeUpdate(w.update, ctx, object, old)
}

type scopeKey struct{}

// errScopeTaken ends the request that takes a scope.
var errScopeTaken = apierrors.NewServiceUnavailable("the request was only sent to see how the resource is served")

// takeScope takes the scope of a request that scopeOf has sent, and reports whether it was one.
func takeScope(ctx context.Context, o admission.ObjectInterfaces) bool {
	taken, ok := ctx.Value(scopeKey{}).(**handlers.RequestScope)
	if ok {
		*taken, _ = o.(*handlers.RequestScope)
	}
	return ok
}

// scopeOf returns what the handlers of a resource know of it. It sends the server a request to create an
// object, whose handler passes its scope to admission.
func (s *Server) scopeOf(ctx context.Context, resource schema.GroupVersionResource) (*handlers.RequestScope, error) {
	kind, err := s.kinds.KindFor(resource)
	if meta.IsNoMatchError(err) { // of a kind that is new
		s.kinds.Reset()
		kind, err = s.kinds.KindFor(resource)
	}
	if err == nil && kind.GroupVersion() != resource.GroupVersion() {
		err = &meta.NoResourceMatchError{PartialResource: resource}
	}
	if err != nil {
		return nil, err
	}
	mapping, err := s.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	path := "/apis/" + resource.GroupVersion().String()
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		path += "/namespaces/" + metav1.NamespaceDefault
	}
	body, err := json.Marshal(&metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "scope"}})
	if err != nil {
		return nil, err
	}
	var scope *handlers.RequestScope
	ctx = request.WithUser(context.WithValue(ctx, scopeKey{}, &scope),
		&user.DefaultInfo{Name: adminUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path+"/"+resource.Resource+"?dryRun="+metav1.DryRunAll,
		strings.NewReader(string(body)))
	r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	answer := httptest.NewRecorder()
	s.Handler(false).ServeHTTP(answer, r)
	if scope == nil {
		return nil, fmt.Errorf("%s of %s are not created as other objects are: %d %s", resource.Resource,
			resource.GroupVersion(), answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	return scope, nil
}
