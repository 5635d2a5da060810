// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"net/http"
	"time"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
)

const (
	// resourcePoll is the time between checks whether a custom resource is served. resourceTimeout
	// bounds how long a custom resource, or another write, may take to be in force.
	resourcePoll    = 5 * time.Millisecond
	resourceTimeout = 30 * time.Second
)

// awaitDefinition waits until the server serves the kind of a CustomResourceDefinition or says why it doesn't. It keeps
// the reason in r.cluster.unserved.
func (r *Reviewer) awaitDefinition(ctx context.Context, definition *unstructured.Unstructured) error {
	mapping, err := r.cluster.findKind(definition)
	if err != nil {
		return err
	}
	kind, _ := input.Defines(definition)
	delete(r.cluster.unserved, definition.GetName())
	ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
	defer cancel()
	// The conditions of a changed definition may be those of before.
	var settled time.Time
	if definition.GetGeneration() > 1 {
		settled = time.Now().Add(2 * time.Second)
	}
	for {
		stored, err := r.getStored(ctx, mapping, "", definition.GetName())
		if err != nil {
			return err
		}
		if stored == nil { // it was deleted at once
			return nil
		}
		isServed, whyNot, err := establishment(stored)
		if err != nil {
			return err
		}
		switch {
		case isServed:
			return r.awaitResource(ctx, definition)
		case whyNot != "" && time.Now().After(settled):
			r.cluster.unserved[definition.GetName()] = unserved{kind, whyNot}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is neither served nor refused after %s", definition.GetName(), resourceTimeout)
		case <-time.After(resourcePoll):
		}
	}
}

// establishment reports whether a CustomResourceDefinition is established, or else why it won't be. It returns "" while
// that isn't known.
//
// Source: k8s.io/apiextensions-apiserver/pkg/controller/establish/establishing_controller.go#sync eda56699
// Source: k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go#calculateNamesAndConditions 4c75ef95
func establishment(object *unstructured.Unstructured) (isServed bool, whyNot string, err error) {
	definition := &extensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return false, "", fmt.Errorf("definition %q: %w", object.GetName(), err)
	}
	for _, c := range definition.Status.Conditions {
		switch {
		case c.Type == extensionsv1.Established && c.Status == extensionsv1.ConditionTrue:
			return true, "", nil
		case c.Status != extensionsv1.ConditionFalse:
		case c.Type == extensionsv1.NamesAccepted,
			c.Type == extensionsv1.Established && c.Reason != "NotAccepted" && c.Reason != "Installing":
			whyNot = fmt.Sprintf("%s is not served: %s: %s", definition.Name, c.Reason, c.Message)
		}
	}
	return false, whyNot, nil
}

// awaitResource waits until the resource of a CustomResourceDefinition is served, and then adds it to
// c.custom: discovery would take longer.
func (r *Reviewer) awaitResource(ctx context.Context, definition *unstructured.Unstructured) error {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(definition.Object, path...)
		return s
	}
	of, _ := input.Defines(definition)
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		kind := schema.GroupVersionKind{Group: text("spec", "group"), Version: name, Kind: text("spec", "names",
			"kind")}
		if served, _, _ := unstructured.NestedBool(fields, "served"); !served {
			delete(r.cluster.custom, kind)
			continue
		}
		mapping := &meta.RESTMapping{GroupVersionKind: kind, Scope: meta.RESTScopeRoot,
			Resource: kind.GroupVersion().WithResource(text("spec", "names", "plural"))}
		for {
			a, err := r.cluster.do(ctx, call{verb: http.MethodGet, as: admin, resource: *mapping})
			if err != nil {
				return err
			}
			if a.ok() {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not served after %s", mapping.Resource.GroupResource(), resourceTimeout)
			case <-time.After(resourcePoll):
			}
		}
		if text("spec", "scope") == "Namespaced" {
			mapping.Scope = meta.RESTScopeNamespace
		}
		r.cluster.custom[kind] = mapping
		if isStored, _, _ := unstructured.NestedBool(fields, "storage"); isStored || r.cluster.stored[of] == "" {
			r.cluster.stored[of] = name
		}
	}
	return nil
}

// awaitDescribed waits until the server's OpenAPI documents describe the custom resources that were
// defined, if a policy may need that: it fails as long as it doesn't find a kind's schema.
func (r *Reviewer) awaitDescribed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
	defer cancel()
	for name, object := range r.cluster.undescribed {
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		if !r.cluster.mutated[group] && !r.cluster.mutated["*"] {
			continue
		}
		definition := &extensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
			return fmt.Errorf("definition %q: %w", name, err)
		}
		if err := r.cluster.server.AwaitDescribed(ctx, definition); err != nil {
			return fmt.Errorf("the OpenAPI documents don't describe %s: %w", name, err)
		}
		delete(r.cluster.undescribed, name)
	}
	return nil
}
