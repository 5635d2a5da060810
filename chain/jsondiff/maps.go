package jsondiff

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mapsOf remembers maps of texts to values of a type.
type mapsOf[V comparable] struct {
	maps   kept[mapOf]
	keys   []string
	values []V
	// bytes are how many the keys and values hold.
	bytes int
}

// mapOf is one map, whose entries are from one index to another.
type mapOf struct {
	place
	live     unsafe.Pointer // nil for one that is gone
	from, to int
}

func (m *mapsOf[V]) clear() {
	m.maps.clear()
	clear(m.keys)
	clear(m.values)
	m.keys, m.values, m.bytes = m.keys[:0], m.values[:0], 0
}

// size is how much memory it takes and holds, in bytes, roughly.
func (m *mapsOf[V]) size() int {
	const entry = 64 // a key, and a text or a quantity
	return len(m.keys)*entry + m.bytes
}

// valuesOf says what there is to know of the values of maps.
type valuesOf[V comparable] struct {
	// copied is a copy of one, and how many bytes it holds.
	copied func(V) (V, int)
	// alike tells whether two are that aren't the same.
	alike func(V, V) bool
}

var (
	ofTexts = valuesOf[string]{
		copied: func(text string) (string, int) { return text, len(text) },
		alike:  func(string, string) bool { return false },
	}
	ofQuantities = valuesOf[resource.Quantity]{
		copied: func(amount resource.Quantity) (resource.Quantity, int) { return amount.DeepCopy(), 0 },
		// A large amount points to its number, a copy of it to another.
		alike: func(a, b resource.Quantity) bool { return a.String() == b.String() },
	}
)

// add remembers the map at an address.
func (m *mapsOf[V]) add(change int, p unsafe.Pointer, in place, of valuesOf[V]) {
	if live := *(*unsafe.Pointer)(p); live != nil {
		m.maps.add(change, m.entries(mapOf{place: in, live: live}, of.copied))
	}
}

// entries remembers what a map has.
func (m *mapsOf[V]) entries(of mapOf, copied func(V) (V, int)) mapOf {
	of.from = len(m.keys)
	for key, value := range *(*map[string]V)(unsafe.Pointer(&of.live)) {
		value, bytes := copied(value)
		m.keys, m.values, m.bytes = append(m.keys, key), append(m.values, value), m.bytes+len(key)+bytes
	}
	of.to = len(m.keys)
	return of
}

// follow remembers what the maps of a memory are now.
func (m *mapsOf[V]) follow(in *Memory, of valuesOf[V]) {
	for i := range m.maps.now {
		each := &m.maps.now[i]
		if !m.is(each, *(*map[string]V)(unsafe.Pointer(&each.live)), of.alike) {
			in.changed()
			m.maps.set(in.changes, i, m.entries(*each, of.copied))
		}
	}
}

// drop drops the maps that are in some places.
func (m *mapsOf[V]) drop(change int, in func(place) bool) {
	for i := range m.maps.now {
		if each := &m.maps.now[i]; each.live != nil && in(each.place) {
			m.maps.set(change, i, mapOf{})
		}
	}
}

// is tells whether what is remembered of a map is what another has.
func (m *mapsOf[V]) is(each *mapOf, other map[string]V, alike func(V, V) bool) bool {
	if len(other) != each.to-each.from {
		return false
	}
	for k := each.from; k < each.to; k++ {
		if value, ok := other[m.keys[k]]; !ok || value != m.values[k] && !alike(value, m.values[k]) {
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

// bytesIn is how many bytes the texts and lists of bytes in a value have.
func bytesIn(value reflect.Value) (n int) {
	switch value.Kind() {
	case reflect.String:
		return value.Len()
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			return bytesIn(value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			n += bytesIn(value.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return value.Len()
		}
		for i := range value.Len() {
			n += bytesIn(value.Index(i))
		}
	case reflect.Map:
		for each := value.MapRange(); each.Next(); {
			n += bytesIn(each.Key()) + bytesIn(each.Value())
		}
	}
	return n
}
