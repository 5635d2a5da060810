// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// What marks rely on: quantities of Kubernetes' kinds aren't deeper than a message is looked into,
// and no kind that has some has another text that a mark makes invalid. After such a text a
// quantity wouldn't be seen.
func TestKinds(t *testing.T) {
	deepest := 0
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		depth := deepestOf(of, reflect.TypeFor[resource.Quantity](), nil)
		// The envelope and the text itself are two.
		if depth+2 > maxDepth {
			t.Errorf("%v has a quantity %d messages deep", kind, depth)
		}
		if depth > 0 && deepestOf(of, reflect.TypeFor[metav1.Duration](), nil) > 0 {
			t.Errorf("%v has quantities and durations", kind)
		}
		deepest = max(deepest, depth)
	}
	if deepest < 5 {
		t.Errorf("quantities are at most %d messages deep", deepest)
	}
}

// deepestOf returns how many messages deep a type is in another, 0 if it isn't in it. The entries
// of a map are messages, too.
func deepestOf(t, wanted reflect.Type, above []reflect.Type) (depth int) {
	if t == wanted {
		return 1
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return deepestOf(t.Elem(), wanted, above)
	case reflect.Map:
		depth = deepestOf(t.Elem(), wanted, above)
	case reflect.Struct:
		for _, outer := range above {
			if outer == t {
				return 0
			}
		}
		for i := range t.NumField() {
			depth = max(depth, deepestOf(t.Field(i).Type, wanted, append(above[:len(above):len(above)], t)))
		}
	}
	if depth > 0 {
		depth++
	}
	return depth
}
