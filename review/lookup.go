// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/recorded"
)

// lookup returns a function that finds the state's objects as a server had them. Objects without a resourceVersion
// are not found: nothing would show that a request was made to another version of them.
func (t *Trial) lookup(ctx context.Context) recorded.Lookup {
	type key struct {
		resource        schema.GroupResource
		namespace, name string
	}
	objects := map[key]*unstructured.Unstructured{}
	for _, d := range t.given {
		if d.Object.GetResourceVersion() == "" {
			continue
		}
		if mapping, err := t.candidate.reviewer.cluster.findKind(d.Object); err == nil {
			objects[key{mapping.Resource.GroupResource(), d.Object.GetNamespace(), d.Object.GetName()}] = d.Object
		}
	}
	return func(resource schema.GroupResource, namespace, name, subresource string) []byte {
		object := objects[key{resource, namespace, name}]
		if object != nil && subresource != "" {
			object = t.scaleOf(ctx, object)
		}
		if object == nil {
			return nil
		}
		data, err := object.MarshalJSON()
		if err != nil {
			return nil // what is unknown isn't judged
		}
		return data
	}
}

// scaleOf returns the Scale of an object of a custom kind that the state has, as the server makes it; nil if it has none.
func (t *Trial) scaleOf(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	r := t.candidate.reviewer
	mapping := r.cluster.custom[object.GroupVersionKind()]
	if mapping == nil {
		return nil
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodGet, resource: *mapping, namespace: object.GetNamespace(),
		name: object.GetName(), subresource: "scale", as: admin})
	if err != nil || !a.ok() || a.object == nil {
		return nil // it has no scale, or isn't stored as it is
	}
	a.object.SetUID(object.GetUID())
	a.object.SetResourceVersion(object.GetResourceVersion())
	return a.object
}
