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
	// content is the same as JSON, nil until somebody asks. As long as the object is the one that
	// was given it is what given returns, if there is that.
	content map[string]any
	given   func() (map[string]any, error)
	// defaulted says that the object has its defaults.
	defaulted bool
}

// NewObject returns an object that is to be mutated: of kind, in a type of its API version or
// unstructured, with apiVersion and kind set. content returns it as the JSON it would be; nil where
// nobody has that yet.
func NewObject(object runtime.Object, kind schema.GroupVersionKind, content func() (map[string]any, error),
	interfaces admission.ObjectInterfaces, schemas *Schemas) *Object {
	return &Object{kind: kind, interfaces: interfaces, schemas: schemas, object: object, given: content}
}

// Object returns the object as it is now. It must not be changed.
func (o *Object) Object() runtime.Object { return o.object }

// Content returns the object as the JSON it would be. It must not be changed.
func (o *Object) Content() (map[string]any, error) {
	if u, ok := o.object.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	if o.content == nil {
		content, err := o.convert()
		if err != nil {
			return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
		}
		o.content = content
	}
	return o.content, nil
}

func (o *Object) convert() (map[string]any, error) {
	if o.given != nil {
		return o.given()
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(o.object)
}

// checkQuantities returns what check says of a document, given an empty object of the kind. An
// unstructured object has no quantities.
func (o *Object) checkQuantities(check func(empty runtime.Object) error) error {
	if _, ok := o.object.(*unstructured.Unstructured); ok {
		return nil
	}
	empty, err := o.interfaces.GetObjectCreater().New(o.kind)
	if err != nil {
		return nil // which the one that reads the document will say
	}
	return check(empty)
}

// set makes the object another one.
func (o *Object) set(object runtime.Object) {
	o.object, o.content, o.given, o.defaulted = object, nil, nil, true
}

// become replaces the object with another one of the same type, sets its defaults, and reports
// whether the two differ.
func (o *Object) become(object runtime.Object) (changed bool) {
	o.interfaces.GetObjectDefaulter().Default(object)
	changed = !apiequality.Semantic.DeepEqual(o.object, object)
	o.set(object)
	return changed
}

// setDefaults gives the object the defaults that what changed it before has left out.
func (o *Object) setDefaults() {
	if o.defaulted {
		return
	}
	// A copy of the outermost struct: defaulting sets fields in it.
	object := shallowCopy(o.object)
	o.interfaces.GetObjectDefaulter().Default(object)
	o.set(object)
}

func shallowCopy(object runtime.Object) runtime.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: u.Object}
	}
	copied := reflect.New(reflect.TypeOf(object).Elem())
	copied.Elem().Set(reflect.ValueOf(object).Elem())
	return copied.Interface().(runtime.Object)
}
