// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/review/input"
)

// requestOf returns the request that a document describes, or nil if the document is an object.
func requestOf(d input.Document) (*admissionv1.AdmissionRequest, error) {
	if !input.IsRequest(d.Object) {
		return nil, nil
	}
	data, err := d.Object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview // v1beta1 has the same fields
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Object.GetKind(), err)
	}
	r := review.Request
	switch {
	case r == nil:
		return nil, errors.New("AdmissionReview: request must be set: it is what is judged")
	case r.Resource == (metav1.GroupVersionResource{}) && r.Kind.Kind != "": // the server knows its resource
	case r.Resource.Resource == "" || r.Resource.Version == "":
		return nil, errors.New("AdmissionReview: request.resource must be set, with its version")
	}
	if r.Operation != admissionv1.Delete && len(r.Object.Raw) == 0 {
		return nil, fmt.Errorf("AdmissionReview: request.object must be set for %s", r.Operation)
	}
	return r, nil
}

// objectOfRequest returns an object in a request, or nil if there is none.
func objectOfRequest(raw []byte) (*unstructured.Unstructured, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("AdmissionReview: %w", err)
	}
	return object, nil
}

// mappingOf returns the mapping of a request's resource, or if it names none, of its kind.
func (r *Reviewer) mappingOf(q *admissionv1.AdmissionRequest) (*meta.RESTMapping, error) {
	if resource := schema.GroupVersionResource(q.Resource); !resource.Empty() {
		mapping, err := r.cluster.findResource(resource)
		if err != nil {
			err = fmt.Errorf("resource: %w", err)
		}
		return mapping, err
	}
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(schema.GroupVersionKind(q.Kind))
	mapping, err := r.cluster.findKind(like)
	if err != nil {
		err = fmt.Errorf("kind: %w", err)
	}
	return mapping, err
}

// replay returns the call that an AdmissionReview's request describes. It stores the request's old
// object before.
func (r *Reviewer) replay(ctx context.Context, q *admissionv1.AdmissionRequest) (*call, *unstructured.Unstructured,
	error) {
	object, err := objectOfRequest(q.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	old, err := objectOfRequest(q.OldObject.Raw)
	if err != nil {
		return nil, nil, err
	}
	mapping, err := r.mappingOf(q)
	if err != nil {
		return nil, nil, fmt.Errorf("AdmissionReview: request.%w", err)
	}
	c := &call{resource: *mapping, namespace: q.Namespace, name: q.Name, subresource: q.SubResource,
		as: r.options.As, authorize: r.options.Authorize, query: url.Values{}}
	if q.UserInfo.Username != "" {
		c.as = userOf(&q.UserInfo)
	}
	switch isNamespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace; {
	case isNamespaced && c.namespace == "":
		c.namespace = r.namespace()
	case !isNamespaced && c.namespace != "" && mapping.GroupVersionKind.GroupKind() != namespaceKind:
		return nil, nil, fmt.Errorf("AdmissionReview: request.namespace: %q: %s are in no namespace: remove it. An input of "+
			"celtest may have it in namespace and in metadata", q.Namespace, mapping.Resource.Resource)
	}
	whole := old != nil && old.GroupVersionKind().GroupKind() == mapping.GroupVersionKind.GroupKind()
	if whole {
		if err := r.load(ctx, old.DeepCopy()); err != nil {
			return nil, nil, fmt.Errorf("AdmissionReview: request.oldObject: %w", err)
		}
	}
	if object != nil {
		c.body = object.DeepCopy()
	}
	switch q.Operation {
	case admissionv1.Create:
		if c.verb = http.MethodPost; c.subresource == "" {
			c.name = ""
		}
		c.body.SetResourceVersion("")
	case admissionv1.Update:
		c.verb = http.MethodPut
		stored, err := r.getStored(ctx, mapping, c.namespace, c.name)
		if err != nil {
			return nil, nil, err
		}
		if stored != nil {
			c.body.SetResourceVersion(stored.GetResourceVersion())
			c.body.SetUID(stored.GetUID())
		}
	case admissionv1.Delete:
		c.verb, c.body = http.MethodDelete, nil
		if object = old; object == nil {
			object = &unstructured.Unstructured{}
			object.SetGroupVersionKind(schema.GroupVersionKind(q.Kind))
		}
	case admissionv1.Connect:
		c.verb, c.body = http.MethodPost, nil
		if err := addOptions(c.query, object); err != nil {
			return nil, nil, fmt.Errorf("AdmissionReview: request.object: %w", err)
		}
	default:
		return nil, nil, fmt.Errorf("AdmissionReview: request.operation: %q is none of CREATE, UPDATE, DELETE, CONNECT",
			q.Operation)
	}
	if object.SetName(q.Name); q.Name == "" && c.body != nil {
		object.SetName(c.body.GetName())
	}
	object.SetNamespace(c.namespace)
	return c, object, setOptions(c, q)
}

// setOptions gives a call the options of a request.
func setOptions(c *call, q *admissionv1.AdmissionRequest) error {
	var options struct {
		DryRun             []string `json:"dryRun"`
		FieldManager       string   `json:"fieldManager"`
		FieldValidation    string   `json:"fieldValidation"`
		GracePeriodSeconds *int64   `json:"gracePeriodSeconds"`
		PropagationPolicy  string   `json:"propagationPolicy"`
	}
	if len(q.Options.Raw) > 0 {
		if err := json.Unmarshal(q.Options.Raw, &options); err != nil {
			return fmt.Errorf("AdmissionReview: request.options: %w", err)
		}
	}
	if c.dryRun = q.DryRun != nil && *q.DryRun || len(options.DryRun) > 0; c.dryRun {
		c.query.Set("dryRun", "All")
	}
	set := func(name, value string) {
		if value != "" && q.Operation != admissionv1.Connect {
			c.query.Set(name, value)
		}
	}
	if q.Operation == admissionv1.Delete {
		set("propagationPolicy", options.PropagationPolicy)
		if seconds := options.GracePeriodSeconds; seconds != nil {
			set("gracePeriodSeconds", strconv.FormatInt(*seconds, 10))
		}
		return nil
	}
	set("fieldManager", options.FieldManager)
	set("fieldValidation", options.FieldValidation)
	return nil
}

// addOptions adds the options of a connection to a query, as a client sends them.
func addOptions(query url.Values, options *unstructured.Unstructured) error {
	for name, value := range options.Object {
		if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue
		}
		values, ok := value.([]any)
		if !ok {
			values = []any{value}
		}
		for _, v := range values {
			switch v.(type) {
			case string, bool, int64, float64:
				query.Add(name, fmt.Sprint(v))
			default:
				return fmt.Errorf("%s: %v is no option of a connection", name, v)
			}
		}
	}
	return nil
}

// userOf returns the user who made a request.
func userOf(info *authenticationv1.UserInfo) user.Info {
	u := &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: slices.Clone(info.Groups)}
	for key, values := range info.Extra {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[strings.ToLower(key)] = values
	}
	return u
}
