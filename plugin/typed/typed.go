// Package typed gives plugins a cache of objects whose kind has a Go type, but no client in
// client-go: those of package apis.
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

// Informer is the shared informer of a resource, in all namespaces; the host starts it together
// with client-go's own. object and list are an empty object and an empty list of the resource's
// type, which is what the cache holds: objects are converted once, when they arrive. The plugin is
// named where something is missing: by the error, where env lacks what an informer is made of, and
// in the log, where the cluster doesn't serve the resource.
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

// convert makes of from an object of the type of like.
func convert(from runtime.Unstructured, like runtime.Object) (runtime.Object, error) {
	to := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.UnstructuredContent(), to); err != nil {
		return nil, fmt.Errorf("%s: %w", from.GetObjectKind().GroupVersionKind(), err)
	}
	return to, nil
}

// convertEvent converts the object of an event. What an error carries is a Status, and stays one;
// an object that can't be converted is an error, too: the informer lists again then.
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
