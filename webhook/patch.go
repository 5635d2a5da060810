package webhook

import (
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"

	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/matching"
	"gatehouse.dev/webhook/review"
)

// patch applies a webhook's patch to the object: as that webhook saw it, in its version, and from
// there to the request's own object. The error continues a sentence about the webhook.
func (r *request) patch(v *version, patch jsonpatch.Patch) (changed bool, err error) {
	seen, err := v.Object()
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
	r.Interfaces.GetObjectDefaulter().Default(object)
	target := r.GetObject()
	if v.Converted {
		kind := target.GetObjectKind().GroupVersionKind()
		if object, err = matching.Convert(object, kind, r.Interfaces); err != nil {
			return false, fmt.Errorf("returned a patch with which the object can't be converted from %s to %s: %w",
				v.Kind, kind, err)
		}
	}
	matching.Replace(target, object)
	r.objectChanged()
	return changed, nil
}

// patched returns what a patch makes of an object, and whether that is another one. Both may share
// memory.
//
// Patches are for JSON, but most can do without.
func patched(object runtime.Object, patch jsonpatch.Patch) (after runtime.Object, changed bool, err error) {
	after, changed, ok := patchedDirectly(object, patch)
	if ok {
		return after, changed, nil
	}
	if after, err = patchedJSON(object, patch); err != nil {
		return nil, false, err
	}
	return after, differ(object, after), nil
}

// patchedJSON is what the library makes of the object's JSON.
func patchedJSON(object runtime.Object, patch jsonpatch.Patch) (runtime.Object, error) {
	data, err := review.EncodeObject(object)
	if err != nil {
		return nil, fmt.Errorf("can't be shown the object: %w", err)
	}
	if data, err = review.Apply(patch, data); err != nil {
		return nil, fmt.Errorf("returned a patch that can't be applied: %w", err)
	}
	after, err := decodeLike(object, data)
	if err != nil {
		return nil, fmt.Errorf("returned a patch that makes the object invalid: %w", err)
	}
	return after, nil
}

// decodeLike reads an object that must be of the same kind, and so of the same type, as another
// one.
func decodeLike(other runtime.Object, data []byte) (runtime.Object, error) {
	object := reflect.New(reflect.TypeOf(other).Elem()).Interface().(runtime.Object)
	// This is how the API server's own serializer reads what it has found to be of a kind: unknown
	// fields are dropped.
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
