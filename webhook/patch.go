// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/quantity"
	"gatehouse.dev/webhook/review"
)

// patch applies a webhook's patch to the object: as that webhook saw it, in its version, and from
// there to the request's own object. The error continues a sentence about the webhook.
func (r *request) patch(v *version, patch jsonpatch.Patch) (result effect, err error) {
	seen, err := v.Object()
	if err != nil {
		return result, fmt.Errorf("can't be shown the object: %w", err)
	}
	if seen == nil {
		return result, errors.New("attempted to modify the object, which is not supported for this operation")
	}
	object, changed, dropped, err := patchObject(seen, patch)
	if err != nil {
		return result, err
	}
	result.changed, result.dropped = changed, dropped
	target, isReported := r.GetObject(), r.calls != nil
	if isReported && changed && !v.Converted {
		result.changes = jsondiff.ChangesBetween(target, object) // without the defaults of what the webhook added
	}
	r.Interfaces.GetObjectDefaulter().Default(object)
	if isReported {
		result.dropped = append(result.dropped, r.dropped(v.Resource, seen, object)...)
	}
	if v.Converted {
		kind := target.GetObjectKind().GroupVersionKind()
		if object, err = matching.ConvertOver(target, object, kind, r.Interfaces); err != nil {
			return result, fmt.Errorf("returned a patch with which the object can't be converted from %s to %s: %w",
				v.Kind, kind, err)
		}
		if isReported && changed {
			result.changes = jsondiff.ChangesBetween(target, object)
		}
	}
	matching.Replace(target, object)
	r.objectChanged()
	return result, nil
}

// patchObject returns a patched copy of an object, with which it may share memory. changed reports
// whether it differs from the object, and dropped names the fields that the types don't have. Most
// patches need no encoding to JSON.
func patchObject(object runtime.Object, patch jsonpatch.Patch) (after runtime.Object, changed bool, dropped []string,
	err error) {
	after, changed, dropped, ok := patchDirectly(object, patch)
	if ok {
		return after, changed, dropped, nil
	}
	if after, dropped, err = patchJSON(object, patch); err != nil {
		return nil, false, nil, err
	}
	keepTimes(object, after)
	return after, differ(object, after), dropped, nil
}

// keepTimes gives an object that was decoded the times of another one's managed fields, if these differ
// only in the fractions of seconds that the JSON doesn't have. They are no change of the patch's.
func keepTimes(object, decoded runtime.Object) {
	from, err := meta.Accessor(object)
	if err != nil {
		return
	}
	to, err := meta.Accessor(decoded)
	if err != nil {
		return
	}
	fields := from.GetManagedFields()
	inSeconds := slices.Clone(fields)
	for i := range inSeconds {
		if at := inSeconds[i].Time; at != nil {
			inSeconds[i].Time = new(at.Rfc3339Copy())
		}
	}
	if !differ(inSeconds, to.GetManagedFields()) {
		to.SetManagedFields(fields)
	}
}

// patchJSON encodes an object, has the library apply a patch, and decodes the result.
func patchJSON(object runtime.Object, patch jsonpatch.Patch) (_ runtime.Object, dropped []string, err error) {
	data, err := review.EncodeObject(object)
	if err != nil {
		return nil, nil, fmt.Errorf("can't be shown the object: %w", err)
	}
	if data, err = review.Apply(patch, data); err != nil {
		return nil, nil, fmt.Errorf("returned a patch that can't be applied: %w", err)
	}
	after, dropped, err := decodeLike(object, data)
	if err != nil {
		return nil, nil, fmt.Errorf("returned a patch that makes the object invalid: %w", err)
	}
	return after, dropped, nil
}

// decodeLike decodes an object that must have the same kind as another one.
func decodeLike(other runtime.Object, data []byte) (_ runtime.Object, dropped []string, err error) {
	object := reflect.New(reflect.TypeOf(other).Elem()).Interface().(runtime.Object)
	// As in the API server's own serializer, unknown fields are dropped.
	if dropped, err = unmarshal(data, object); err != nil {
		return nil, nil, err
	}
	want, got := other.GetObjectKind().GroupVersionKind(), object.GetObjectKind().GroupVersionKind()
	// A patch may remove apiVersion or kind: the type says what the object is.
	if got.GroupVersion().Empty() {
		got.Group, got.Version = want.Group, want.Version
	}
	if got.Kind == "" {
		got.Kind = want.Kind
	}
	if got != want {
		return nil, nil, fmt.Errorf("apiVersion and kind must stay those of %s, not become those of %s", want, got)
	}
	object.GetObjectKind().SetGroupVersionKind(want)
	return object, dropped, nil
}

// unmarshal decodes JSON as the API server does. It returns the fields that it dropped, as the type
// doesn't have them.
func unmarshal(data []byte, into any) (dropped []string, err error) {
	if err := quantity.CheckJSON(data, reflect.New(reflect.TypeOf(into).Elem()).Interface()); err != nil {
		return nil, err
	}
	unknown, err := kjson.UnmarshalStrict(data, into, kjson.DisallowUnknownFields)
	for _, problem := range unknown {
		if field, ok := strings.CutPrefix(problem.Error(), "unknown field "); ok {
			dropped = append(dropped, strings.Trim(field, `"`))
		}
	}
	return dropped, err
}
