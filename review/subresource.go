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
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// WithSubresource returns the reviewer, on the same server, for objects that are sent to a
// subresource of the object that has their name: "scale", or "deployments/scale" if several
// resources have one. Empty is the object itself.
func (r *Reviewer) WithSubresource(name string) *Reviewer {
	with := *r
	with.subresource = name
	return &with
}

// subresourceOf is a subresource of an object.
type subresourceOf struct {
	mapping *meta.RESTMapping
	name    string
	verbs   []string
	// stored is the object.
	stored *unstructured.Unstructured
}

// String returns resource/subresource.
func (s *subresourceOf) String() string { return s.mapping.Resource.Resource + "/" + s.name }

// callSubresource returns the call that sends an object to the reviewer's subresource.
func (r *Reviewer) callSubresource(ctx context.Context, object *unstructured.Unstructured) (*call, error) {
	if object.GetName() == "" {
		return nil, fmt.Errorf("metadata.name must be set: it names the object whose %s this is", r.subresource)
	}
	of, err := r.findSubresource(ctx, object)
	if err != nil {
		return nil, err
	}
	c := &call{resource: *of.mapping, subresource: of.name, name: object.GetName(), as: r.options.As,
		authorize: r.options.Authorize, body: object, namespace: of.stored.GetNamespace(),
		query: url.Values{"fieldValidation": {cmp.Or(r.options.FieldValidation, metav1.FieldValidationStrict)}}}
	connects := strings.HasSuffix(object.GetKind(), "Options")
	operation, verb := r.options.Operation, ""
	if manager, ok := fieldManagers[operation]; ok {
		c.query.Set("fieldManager", manager)
	}
	if operation == "" {
		switch {
		case connects:
			operation = Connect
		case slices.Contains(of.verbs, "patch"):
			operation, verb = Update, "patch"
		default:
			operation = Create
		}
	}
	switch {
	case verb == "patch":
		c.verb, c.body, c.contentType = http.MethodPatch, nil, string(types.MergePatchType)
		if scheme.Scheme.Recognizes(object.GroupVersionKind()) {
			c.contentType = string(types.StrategicMergePatchType)
		}
		if c.raw, err = manifestJSON(object); err != nil {
			return nil, err
		}
	case operation == Connect && connects:
		verb, c.verb, c.body, c.query = "create", http.MethodPost, nil, url.Values{}
		if err := addOptions(c.query, object); err != nil {
			return nil, err
		}
	case operation == Create && !connects:
		verb, c.verb = "create", http.MethodPost
	case operation == Update:
		verb, c.verb = "update", http.MethodPut
		object.SetResourceVersion(of.stored.GetResourceVersion())
	case operation == Apply:
		verb = "patch"
		c.apply()
	default:
		return nil, fmt.Errorf("operation %s is not for %s with a %s", operation, of, object.GetKind())
	}
	if !slices.Contains(of.verbs, verb) {
		return nil, fmt.Errorf("operation %s is not for %s, whose verbs are %s", operation, of,
			strings.Join(of.verbs, ", "))
	}
	return c, nil
}

// findSubresource finds the reviewer's subresource that takes objects of the object's kind. If
// several resources have one, it takes the subresource of the existing object.
func (r *Reviewer) findSubresource(ctx context.Context, object *unstructured.Unstructured) (*subresourceOf, error) {
	resource, name, ok := strings.Cut(r.subresource, "/")
	if !ok {
		resource, name = "", r.subresource
	}
	all, kinds, err := r.subresources(resource, name, object.GroupVersionKind())
	if err == nil && len(all) == 0 { // of a kind that is new
		r.cluster.discovery.Invalidate()
		all, kinds, err = r.subresources(resource, name, object.GroupVersionKind())
	}
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0 && len(kinds) > 0:
		return nil, fmt.Errorf("subresource %s takes a %s, and not a %s", r.subresource, strings.Join(kinds, ", or a "),
			object.GroupVersionKind().GroupVersion().String()+" "+object.GetKind())
	case len(all) == 0:
		return nil, fmt.Errorf("subresource %s: no resource has it", r.subresource)
	}
	var there, names []string
	var found *subresourceOf
	for _, s := range all {
		namespace := ""
		if s.mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace = r.namespaceOf(object)
		}
		if s.stored, err = r.getStored(ctx, s.mapping, namespace, object.GetName()); err != nil {
			return nil, err
		}
		names = append(names, s.mapping.Resource.Resource)
		if s.stored != nil {
			found, there = s, append(there, s.String())
		}
	}
	switch len(there) {
	case 0:
		return nil, fmt.Errorf("subresource %s: there is no %q among %s: the state must have it", r.subresource,
			object.GetName(), strings.Join(names, ", "))
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("subresource %s: several have the name %q: it must be one of %s", r.subresource,
		object.GetName(), strings.Join(there, ", "))
}

// subresources returns the subresources of a name that take objects of a kind, and the other kinds
// that subresources of the name take. resource is the resource that has them, or "" for any.
func (r *Reviewer) subresources(resource, name string, kind schema.GroupVersionKind) (all []*subresourceOf,
	kinds []string, err error) {
	_, lists, err := r.cluster.discovery.ServerGroupsAndResources()
	if err != nil {
		return nil, nil, fmt.Errorf("finding out which resources have the subresource %s: %w", name, err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, one := range list.APIResources {
			of, subresource, _ := strings.Cut(one.Name, "/")
			if subresource != name || resource != "" && resource != of {
				continue
			}
			takes := gv.WithKind(one.Kind)
			if one.Version != "" {
				takes.Group, takes.Version = one.Group, one.Version
			}
			if takes != kind {
				if text := takes.GroupVersion().String() + " " + takes.Kind; !slices.Contains(kinds, text) {
					kinds = append(kinds, text)
				}
				continue
			}
			mapping, err := r.cluster.findResource(gv.WithResource(of))
			if err != nil {
				return nil, nil, err
			}
			all = append(all, &subresourceOf{mapping: mapping, name: name, verbs: one.Verbs})
		}
	}
	return all, kinds, nil
}

// errSubresourceOfRequest is returned if a subresource is given twice.
var errSubresourceOfRequest = errors.New("an AdmissionReview says itself which subresource its request is for: " +
	"none can be given besides")
