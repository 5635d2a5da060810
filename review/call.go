// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// callOf returns the call that judges a document: the request that it describes, or the write of its
// object.
func (r *Reviewer) callOf(ctx context.Context, d input.Document, object *unstructured.Unstructured, result *Result) (
	*call, error) {
	request, err := requestOf(d)
	if err != nil {
		return nil, err
	}
	switch {
	case request == nil && r.subresource != "":
		return r.callSubresource(ctx, object)
	case request == nil:
		return r.call(ctx, object)
	case r.subresource != "":
		return nil, errSubresourceOfRequest
	}
	c, object, err := r.replay(ctx, request)
	if err == nil {
		result.Object, result.Sent = objectOf(object), object
	}
	return c, err
}

// call returns the call that writes an object.
func (r *Reviewer) call(ctx context.Context, object *unstructured.Unstructured) (*call, error) {
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return nil, err
	}
	c := &call{resource: *mapping, as: r.options.As, authorize: r.options.Authorize, body: object,
		query: url.Values{"fieldValidation": {cmp.Or(r.options.FieldValidation, metav1.FieldValidationStrict)}}}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		c.namespace = r.namespaceOf(object)
	}
	operation := r.options.Operation
	if manager, ok := fieldManagers[operation]; ok {
		c.query.Set("fieldManager", manager)
	}
	if operation == "" || operation == Update || operation == Apply {
		stored, err := r.getStored(ctx, mapping, c.namespace, object.GetName())
		if err != nil {
			return nil, err
		}
		c.before = stored
		switch {
		case stored != nil && operation == "":
			c.verb, c.name, c.body = http.MethodPatch, object.GetName(), nil
			return c, c.update(object, stored, r.manifests[r.keyOf(object)])
		case stored != nil && operation == Update:
			object.SetResourceVersion(stored.GetResourceVersion())
			object.SetUID(stored.GetUID())
		case operation == "":
			operation = Create
		}
	}
	switch operation {
	case Create:
		c.verb = http.MethodPost
		object.SetResourceVersion("")
	case Update:
		c.verb, c.name = http.MethodPut, object.GetName()
	case Apply:
		c.name = object.GetName()
		c.apply()
	case Delete:
		c.verb, c.name, c.body, c.query = http.MethodDelete, object.GetName(), nil, nil
	case Connect:
		if mapping.Resource.Resource != "pods" {
			return nil, fmt.Errorf("connect is for pods, not for %s", mapping.Resource.Resource)
		}
		c.verb, c.name, c.subresource, c.body = http.MethodPost, object.GetName(), "exec", nil
		c.query = url.Values{"command": {"sh"}, "stdin": {"true"}, "stdout": {"true"}, "tty": {"true"}}
	default:
		return nil, fmt.Errorf("operation %q: it is one of %s", operation, strings.Trim(fmt.Sprint(Operations), "[]"))
	}
	return c, nil
}

// getStored returns a stored object, or nil if there is none.
func (r *Reviewer) getStored(ctx context.Context, mapping *meta.RESTMapping, namespace, name string) (
	*unstructured.Unstructured, error) {
	if name == "" {
		return nil, nil
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodGet, resource: *mapping, namespace: namespace, name: name,
		as: admin})
	switch {
	case err != nil:
		return nil, err
	case a.ok():
		return a.object, nil
	case a.code == http.StatusNotFound || a.code == http.StatusMethodNotAllowed:
		return nil, nil
	}
	return nil, errors.New(a.message())
}
