// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typed caches objects for plugins if their kind has a Go type but no client in client-go, as
// the kinds of package apis.
//
// The package is public: docs/compatibility.md promises its exported names and behaviour.
package typed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
)

// Informer returns the shared informer of a resource, in all namespaces. The host starts it together
// with client-go's own. object and list are an empty object and an empty list of the resource's Go
// type. The cache holds objects of that type; each is converted once, on arrival.
//
// Informer returns an error that names the plugin if env has no dynamic client or no informers. If
// the cluster doesn't serve the resource, the log says so and names the plugin.
func Informer(plugin string, env *plugin.Env, resource schema.GroupVersionResource, object,
	list runtime.Object) (cache.SharedIndexInformer, error) {
	if env.Dynamic == nil {
		return nil, errors.New(plugin + " needs a dynamic client")
	}
	if env.Informers == nil {
		return nil, errors.New(plugin + " needs informers")
	}
	client := env.Dynamic.Resource(resource)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, err := client.List(ctx, options)
			if err != nil {
				return nil, err
			}
			return convert(found, list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w,
				func(event watch.Event) (watch.Event, bool) { return convertEvent(event, object), true }), nil
		},
	}
	var err error
	informer := env.Informers.InformerFor(object,
		func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, env.Dynamic), object,
				resync,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
				if apierrors.IsNotFound(err) {
					err = fmt.Errorf("the cluster doesn't serve %s of %s, which %s needs: %w", resource.Resource,
						resource.GroupVersion(), plugin, err)
					klog.FromContext(ctx).Error(err, "Admission plugin refuses requests", "plugin", plugin)
					return
				}
				cache.DefaultWatchErrorHandler(ctx, r, err)
			})
			return informer
		})
	return informer, err
}

// convert returns the object from in the Go type of like.
func convert(from runtime.Unstructured, like runtime.Object) (runtime.Object, error) {
	to := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.UnstructuredContent(), to); err != nil {
		return nil, fmt.Errorf("%s: %w", from.GetObjectKind().GroupVersionKind(), err)
	}
	return to, nil
}

// convertEvent converts the object of an event. An error's Status stays as it is. If the object can't
// be converted, the event becomes an error, and the informer lists again.
func convertEvent(event watch.Event, like runtime.Object) watch.Event {
	from, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		return event
	}
	to, err := convert(from, like)
	if err != nil {
		status := apierrors.NewGenericServerResponse(http.StatusInternalServerError, "watch", schema.GroupResource{},
			from.GetName(), err.Error(), 0, true).Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: event.Type, Object: to}
}
