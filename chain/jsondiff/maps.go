package jsondiff

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mapsOf remembers maps of texts to values of a type.
type mapsOf[V comparable] struct {
	maps   []mapOf
	keys   []string
	values []V
}

// mapOf is one map, whose entries are from one index to another.
type mapOf struct {
	place
	live     unsafe.Pointer
	from, to int
}

func (m *mapsOf[V]) clear() {
	clear(m.maps)
	clear(m.keys)
	clear(m.values)
	m.maps, m.keys, m.values = m.maps[:0], m.keys[:0], m.values[:0]
}

// add remembers the map at an address, and returns how many bytes its keys have. copied is a copy
// of a value.
func (m *mapsOf[V]) add(p unsafe.Pointer, at place, copied func(V) V) (keys int) {
	from := len(m.keys)
	for key, value := range *(*map[string]V)(p) {
		m.keys, m.values = append(m.keys, key), append(m.values, copied(value))
		keys += len(key)
	}
	m.maps = append(m.maps, mapOf{place: at, live: *(*unsafe.Pointer)(p), from: from, to: len(m.keys)})
	return keys
}

// changed tells whether one isn't what it was.
func (m *mapsOf[V]) changed() bool {
	for i := range m.maps {
		each := &m.maps[i]
		if !m.are(each, *(*map[string]V)(unsafe.Pointer(&each.live))) {
			return true
		}
	}
	return false
}

// are tells whether what is remembered of a map is what another has.
func (m *mapsOf[V]) are(each *mapOf, other map[string]V) bool {
	if len(other) != each.to-each.from {
		return false
	}
	for k := each.from; k < each.to; k++ {
		if value, ok := other[m.keys[k]]; !ok || value != m.values[k] {
			return false
		}
	}
	return true
}

// copyOf is a copy of a value, and has an address. They share no memory that could be changed, but
// what fields that aren't exported point to.
func copyOf(value reflect.Value) reflect.Value {
	copied := reflect.New(value.Type()).Elem()
	if value.Type() == untyped {
		copied.Set(reflect.ValueOf(copyOfUntyped(value.Interface())))
		return copied
	}
	copied.Set(value)
	if q, ok := copied.Addr().Interface().(*resource.Quantity); ok {
		*q = q.DeepCopy()
		return copied
	}
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			copied.Set(copyOf(value.Elem()).Addr())
		}
	case reflect.Interface:
		if !value.IsNil() {
			copied.Set(copyOf(value.Elem()))
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				copied.Field(i).Set(copyOf(value.Field(i)))
			}
		}
	case reflect.Array:
		for i := range value.Len() {
			copied.Index(i).Set(copyOf(value.Index(i)))
		}
	case reflect.Slice:
		if value.IsNil() {
			break
		}
		copied.Set(reflect.MakeSlice(value.Type(), value.Len(), value.Len()))
		for i := range value.Len() {
			copied.Index(i).Set(copyOf(value.Index(i)))
		}
	case reflect.Map:
		if value.IsNil() {
			break
		}
		copied.Set(reflect.MakeMapWithSize(value.Type(), value.Len()))
		for each := value.MapRange(); each.Next(); {
			copied.SetMapIndex(each.Key(), copyOf(each.Value()))
		}
	}
	return copied
}

var untyped = reflect.TypeFor[map[string]any]()

// copyOfUntyped is copyOf for what JSON is decoded to, quickly. The library's runtime.DeepCopyJSON
// panics at anything else, which a plugin may have put there.
func copyOfUntyped(value any) any {
	switch value := value.(type) {
	case nil, string, bool, int64, float64:
		return value
	case map[string]any:
		if value == nil {
			return value
		}
		copied := make(map[string]any, len(value))
		for key, each := range value {
			copied[key] = copyOfUntyped(each)
		}
		return copied
	case []any:
		if value == nil {
			return value
		}
		copied := make([]any, len(value))
		for i, each := range value {
			copied[i] = copyOfUntyped(each)
		}
		return copied
	}
	return copyOf(reflect.ValueOf(value)).Interface()
}
