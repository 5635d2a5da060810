package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"gatehouse.dev/webhook/review"
)

// patch applies a webhook's patch to the object: as that webhook saw it, in its version, and from there to the request's own object. The error
// continues a sentence about the webhook.
func (r *request) patch(v *version, patch jsonpatch.Patch) (changed bool, err error) {
	seen, err := v.getObject()
	if err != nil {
		return false, fmt.Errorf("can't be shown the object: %w", err)
	}
	if seen == nil {
		return false, errors.New("attempted to modify the object, which is not supported for this operation")
	}
	object, changed, err := patched(seen, patch)
	if err != nil {
		return false, err
	}
	r.interfaces.GetObjectDefaulter().Default(object)
	target := r.GetObject()
	if v.converted {
		kind := target.GetObjectKind().GroupVersionKind()
		if object, err = convert(object, kind, r.interfaces); err != nil {
			return false, fmt.Errorf("returned a patch with which the object can't be converted from %s to %s: %w", v.kind, kind, err)
		}
	}
	replace(target, object)
	r.objectChanged()
	return changed, nil
}

// patched returns what a patch makes of an object, and whether that is another one. Both may share memory.
//
// Patches are for JSON. Only those of the object's fields take the way through it that the patch has something to do with: most
// patches are about metadata, and most of an object is in its spec. Labels and annotations don't need it.
func patched(object runtime.Object, patch jsonpatch.Patch) (_ runtime.Object, changed bool, err error) {
	if labelled, changed, ok := labelled(object, patch); ok {
		return labelled, changed, nil
	}
	before := object
	fields, ok := topFields(patch)
	if ok {
		before = only(object, fields)
	}
	data, err := review.EncodeObject(before)
	if err != nil {
		return nil, false, fmt.Errorf("can't be shown the object: %w", err)
	}
	if data, err = review.Apply(patch, data); err != nil {
		return nil, false, fmt.Errorf("returned a patch that can't be applied: %w", err)
	}
	after, err := decodeLike(before, data)
	if err != nil {
		return nil, false, fmt.Errorf("returned a patch that makes the object invalid: %w", err)
	}
	changed = !apiequality.Semantic.DeepEqual(before, after)
	if ok {
		after = with(object, after, fields)
	}
	return after, changed, nil
}

// topFields are the fields of the object that a patch's paths begin with. ok is false where that can't be told apart from what the
// object is: there are paths to the whole of it, to its kind, or that are none.
func topFields(patch jsonpatch.Patch) (fields sets.Set[string], ok bool) {
	fields = sets.New[string]()
	for _, operation := range patch {
		paths := []string{"path"}
		if kind := operation.Kind(); kind == "move" || kind == "copy" {
			paths = append(paths, "from")
		}
		for _, name := range paths {
			var path string
			raw := operation[name]
			if raw == nil || json.Unmarshal(*raw, &path) != nil || !strings.HasPrefix(path, "/") {
				return nil, false
			}
			field, _, _ := strings.Cut(path[1:], "/")
			if strings.Contains(field, "~") {
				return nil, false // no field of an object is called so
			}
			if field == "apiVersion" || field == "kind" {
				return nil, false
			}
			fields.Insert(field)
		}
	}
	return fields, true
}

// only returns an object with those fields of object, and its kind.
func only(object runtime.Object, fields sets.Set[string]) runtime.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		part := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.Object["apiVersion"], "kind": u.Object["kind"]}}
		move(part.Object, u.Object, fields)
		return part
	}
	part := reflect.New(reflect.TypeOf(object).Elem())
	copyFields(part.Elem(), reflect.ValueOf(object).Elem(), fields)
	partial := part.Interface().(runtime.Object)
	partial.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return partial
}

// with returns object with those fields of part.
func with(object, part runtime.Object, fields sets.Set[string]) runtime.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		all := make(map[string]any, len(u.Object))
		for name, value := range u.Object {
			all[name] = value
		}
		move(all, part.(*unstructured.Unstructured).Object, fields)
		return &unstructured.Unstructured{Object: all}
	}
	all := reflect.New(reflect.TypeOf(object).Elem())
	all.Elem().Set(reflect.ValueOf(object).Elem())
	copyFields(all.Elem(), reflect.ValueOf(part).Elem(), fields)
	return all.Interface().(runtime.Object)
}

// move makes the fields of to those of from, missing where they are missing there.
func move(to, from map[string]any, fields sets.Set[string]) {
	for field := range fields {
		if value, ok := from[field]; ok {
			to[field] = value
		} else {
			delete(to, field)
		}
	}
}

// copyFields does the same with structs of one type, whose fields are called by their names in JSON.
func copyFields(to, from reflect.Value, fields sets.Set[string]) {
	for i := range to.NumField() {
		name, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		if fields.Has(name) {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// decodeLike reads an object that must be of the same kind, and so of the same type, as another one.
func decodeLike(other runtime.Object, data []byte) (runtime.Object, error) {
	object := reflect.New(reflect.TypeOf(other).Elem()).Interface().(runtime.Object)
	// This is how the API server's own serializer reads what it has found to be of a kind: unknown fields are dropped.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, object); err != nil {
		return nil, err
	}
	want, got := other.GetObjectKind().GroupVersionKind(), object.GetObjectKind().GroupVersionKind()
	// What removes apiVersion or kind changes nothing: the type says what the object is.
	if got.GroupVersion().Empty() {
		got.Group, got.Version = want.Group, want.Version
	}
	if got.Kind == "" {
		got.Kind = want.Kind
	}
	if got != want {
		return nil, fmt.Errorf("apiVersion and kind must stay those of %s, not become those of %s", want, got)
	}
	object.GetObjectKind().SetGroupVersionKind(want)
	return object, nil
}
