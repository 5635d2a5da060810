package apiserver

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin"
)

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

// Authorizer decides who may do what.
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

// cached returns objects of the types that informers have been asked for.
func (s *Server) cached() iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		stop := make(chan struct{})
		close(stop) // it is to list them, not to wait
		for kind := range s.informers.WaitForCacheSync(stop) {
			if object, ok := reflect.New(kind.Elem()).Interface().(runtime.Object); ok && !yield(object) {
				return
			}
		}
	}
}

// Await returns once the server's informers, by which plugins and authorizers decide, have an
// object as it was written, or as it was later, and quotas show what came of it, or once ctx ends,
// with its error.
func (s *Server) Await(ctx context.Context, written plugin.Written) error {
	if err := s.backend.Counted(ctx); err != nil {
		return err
	}
	for object := range s.cached() {
		if s.resourceOf(object) != written.Resource {
			continue
		}
		store := s.informers.InformerFor(object, nil).GetStore() // which is there
		if err := plugin.Until(ctx, func() bool { return written.In(store) }); err != nil {
			return err
		}
	}
	return nil
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

// AwaitStored returns once the server's informers, by which plugins and authorizers decide, show
// what is stored when it is called, and nothing that was deleted by then; or once ctx ends, with
// its error.
func (s *Server) AwaitStored(ctx context.Context) error {
	client, err := metadata.NewForConfig(s.loopback)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for object := range s.cached() {
		kind, ok := s.kindOf(object)
		if !ok {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		store := s.informers.InformerFor(object, nil).GetStore() // which is there
		group.Go(func() error {
			list, err := client.Resource(plural).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list of %s: %w", plural.Resource, err)
			}
			return plugin.Until(ctx, func() bool { return shows(store, list) })
		})
	}
	return group.Wait()
}

// shows reports whether a cache is at least as new as a list.
func shows(store cache.Store, list *metav1.PartialObjectMetadataList) bool {
	listed := make(map[string]uint64, len(list.Items))
	for _, item := range list.Items {
		listed[cache.MetaObjectToName(&item).String()] = storedAt(&item)
	}
	for _, object := range store.List() {
		has, err := meta.Accessor(object)
		if err != nil {
			return false
		}
		name := cache.MetaObjectToName(has).String()
		if at, ok := listed[name]; storedAt(has) >= at && ok {
			delete(listed, name)
		} else if storedAt(has) <= storedAt(list) {
			return false // gone by then, or older than listed
		}
	}
	return len(listed) == 0
}

// storedAt is the order in which etcd has stored objects.
func storedAt(object interface{ GetResourceVersion() string }) uint64 {
	number, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64) // as the server has made it
	return number
}

// resourceOf returns the resource of a built-in kind.
func (s *Server) resourceOf(object runtime.Object) schema.GroupResource {
	kind, ok := s.kindOf(object)
	if !ok {
		return schema.GroupResource{}
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource()
}

// kindOf returns the kind of a built-in type.
func (s *Server) kindOf(object runtime.Object) (schema.GroupVersionKind, bool) {
	for _, known := range []*runtime.Scheme{scheme.Scheme, s.options.Legacy.Kinds().Scheme} {
		if kinds, _, err := known.ObjectKinds(object); err == nil {
			return kinds[0], true
		}
	}
	return schema.GroupVersionKind{}, false
}

type exemptKey struct{}

// WithoutAdmission is a context for requests to Handler that are not to be admitted, but stored as
// they are, once they have their defaults and are valid: objects that a server is to have from the
// start, as they have been admitted elsewhere. A quota has the usage that is sent with it, and is
// taken to have other objects of the start in it.
func WithoutAdmission(ctx context.Context) context.Context {
	return quota.WithStatedUsage(context.WithValue(ctx, exemptKey{}, true))
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

// admissionExempt reports whether the request has such a context. No client can make it.
func admissionExempt(ctx context.Context) bool {
	exempt, _ := ctx.Value(exemptKey{}).(bool)
	return exempt
}
