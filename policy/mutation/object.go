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

// Object is one object of one request, in one version, on its way from mutation to mutation. It is
// for one goroutine.
type Object struct {
	kind       schema.GroupVersionKind
	interfaces admission.ObjectInterfaces
	schemas    *Schemas

	// object is what the mutations so far have made of it.
	object runtime.Object
	// content is the same as JSON, nil until somebody asks.
	content map[string]any
	// defaulted says that the object has its defaults.
	defaulted bool
}

// NewObject returns an object that is to be mutated: of kind, in a type of its API version or
// unstructured, with apiVersion and kind set.
func NewObject(object runtime.Object, kind schema.GroupVersionKind, interfaces admission.ObjectInterfaces,
	schemas *Schemas) *Object {
	return &Object{kind: kind, interfaces: interfaces, schemas: schemas, object: object}
}

// Object returns the object as it is now. It must not be changed.
func (o *Object) Object() runtime.Object { return o.object }

// Content returns the object as the JSON it would be. It must not be changed.
func (o *Object) Content() (map[string]any, error) {
	if u, ok := o.object.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	if o.content == nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.object)
		if err != nil {
			return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
		}
		o.content = content
	}
	return o.content, nil
}

// become makes the object another one, of the same type, which lacks defaults, and tells whether
// they differ.
func (o *Object) become(object runtime.Object) (changed bool) {
	o.interfaces.GetObjectDefaulter().Default(object)
	changed = !apiequality.Semantic.DeepEqual(o.object, object)
	o.object, o.content, o.defaulted = object, nil, true
	return changed
}

// setDefaults gives the object the defaults that what changed it before has left out.
func (o *Object) setDefaults() {
	if o.defaulted {
		return
	}
	// A copy of the outermost struct: defaulting sets fields in it.
	o.object = shallowCopy(o.object)
	o.interfaces.GetObjectDefaulter().Default(o.object)
	o.content, o.defaulted = nil, true
}

func shallowCopy(object runtime.Object) runtime.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: u.Object}
	}
	copied := reflect.New(reflect.TypeOf(object).Elem())
	copied.Elem().Set(reflect.ValueOf(object).Elem())
	return copied.Interface().(runtime.Object)
}
