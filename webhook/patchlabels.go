package webhook

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// labelled is patched for what most patches do: they set labels or annotations of an object that has some. That is seen from the patch, and
// takes no JSON of an object whose metadata may be long. ok is false for all other patches, and for those that can't be applied, to
// which patched has the answer.
func labelled(object runtime.Object, patch jsonpatch.Patch) (_ runtime.Object, changed, ok bool) {
	own, hasMetadata := object.(metav1.Object)
	if _, custom := object.(runtime.Unstructured); custom || !hasMetadata {
		return nil, false, false // of a custom object the metadata is what somebody wrote
	}
	labels, annotations := settings{before: own.GetLabels()}, settings{before: own.GetAnnotations()}
	for _, operation := range patch {
		path, err := operation.Path()
		if err != nil {
			return nil, false, false
		}
		if key, is := strings.CutPrefix(path, "/metadata/labels/"); is && labels.set(operation, key) {
			continue
		}
		if key, is := strings.CutPrefix(path, "/metadata/annotations/"); !is || !annotations.set(operation, key) {
			return nil, false, false
		}
	}
	after := reflect.New(reflect.TypeOf(object).Elem())
	after.Elem().Set(reflect.ValueOf(object).Elem())
	object = after.Interface().(runtime.Object)
	own = object.(metav1.Object)
	if labels.after != nil {
		own.SetLabels(labels.after)
	}
	if annotations.after != nil {
		own.SetAnnotations(annotations.after)
	}
	return object, labels.changed() || annotations.changed(), true
}

// settings are labels or annotations, before a patch and, once it has set one, after it.
type settings struct{ before, after map[string]string }

// set sets a value as one operation of a patch says, whose path ends in key. It is false, and sets nothing, where the operation is more than that,
// or an error.
func (s *settings) set(operation jsonpatch.Operation, key string) bool {
	if len(s.before) == 0 || strings.Contains(key, "/") {
		return false
	}
	if s.after == nil {
		s.after = maps.Clone(s.before)
	}
	key = unescaped.Replace(key)
	switch _, there := s.after[key]; operation.Kind() {
	case "add":
	case "replace":
		if !there {
			return false
		}
	default:
		return false
	}
	value := operation["value"]
	if value == nil || (*value)[0] != '"' {
		return false
	}
	var text string
	if json.Unmarshal(*value, &text) != nil {
		return false
	}
	s.after[key] = text
	return true
}

func (s *settings) changed() bool { return s.after != nil && !maps.Equal(s.before, s.after) }

// unescaped is a part of a path as it is meant (RFC 6901).
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")
