// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"fmt"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Object is one object of one request, in one version, passed from mutation to mutation. It is for
// one goroutine.
type Object struct {
	kind       schema.GroupVersionKind
	interfaces admission.ObjectInterfaces
	schemas    *Schemas

	// object is the object as the mutations so far left it.
	object runtime.Object
	// content is the object as JSON, nil until it is asked for. source, which may be nil, returns
	// it as long as no mutation has replaced the object.
	content map[string]any
	source  func() (map[string]any, error)
	// hasDefaults reports whether the object's defaults have been set.
	hasDefaults bool
}

// NewObject returns an Object of a kind. object is of its API version's type, or unstructured, and
// has apiVersion and kind set. content returns the object as JSON; it is nil if nothing has made
// that yet.
func NewObject(object runtime.Object, kind schema.GroupVersionKind, content func() (map[string]any, error),
	interfaces admission.ObjectInterfaces, schemas *Schemas) *Object {
	return &Object{kind: kind, interfaces: interfaces, schemas: schemas, object: object, source: content}
}

// Object returns the object as it is now. It must not be changed.
func (o *Object) Object() runtime.Object { return o.object }

// Content returns the object as JSON. It must not be changed.
func (o *Object) Content() (map[string]any, error) {
	if u, ok := o.object.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	if o.content == nil {
		content, err := o.makeContent()
		if err != nil {
			return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
		}
		o.content = content
	}
	return o.content, nil
}

func (o *Object) makeContent() (map[string]any, error) {
	if o.source != nil {
		return o.source()
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(o.object)
}

// checkQuantities calls check with an empty object of the kind, and returns its error. It does
// nothing for an unstructured object, which has no quantities.
func (o *Object) checkQuantities(check func(empty runtime.Object) error) error {
	if _, ok := o.object.(*unstructured.Unstructured); ok {
		return nil
	}
	empty, err := o.interfaces.GetObjectCreater().New(o.kind)
	if err != nil {
		return nil // decoding the document fails with the same error
	}
	return check(empty)
}

// setObject puts another object, which has its defaults, in place.
func (o *Object) setObject(object runtime.Object) {
	o.object, o.content, o.source, o.hasDefaults = object, nil, nil, true
}

// replaceWith sets the defaults of another object of the same type, puts it in place, and reports
// whether the two differ.
func (o *Object) replaceWith(object runtime.Object) (changed bool) {
	o.interfaces.GetObjectDefaulter().Default(object)
	changed = !apiequality.Semantic.DeepEqual(o.object, object)
	o.setObject(object)
	return changed
}

// setDefaults sets the object's defaults, unless that has been done.
func (o *Object) setDefaults() {
	if o.hasDefaults {
		return
	}
	// A copy of the outermost struct: defaulting sets fields in it.
	object := shallowCopy(o.object)
	o.interfaces.GetObjectDefaulter().Default(object)
	o.setObject(object)
}

func shallowCopy(object runtime.Object) runtime.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: u.Object}
	}
	copied := reflect.New(reflect.TypeOf(object).Elem())
	copied.Elem().Set(reflect.ValueOf(object).Elem())
	return copied.Interface().(runtime.Object)
}
