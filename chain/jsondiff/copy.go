package jsondiff

import (
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Snapshot returns a copy of what object, a pointer to a struct, points to, for Sync to compare it
// with later. The copy shares no memory with it that could be changed. It may be in memory that
// another one was in, see Release: a server copies objects of the same few types again and again,
// and most of a copy are its lists and maps.
func Snapshot(object any) any {
	from := reflect.ValueOf(object)
	s := shapeOf(from.Type().Elem())
	to := s.snapshots.Get()
	s.copy(reflect.ValueOf(to).UnsafePointer(), from.UnsafePointer())
	return to
}

// Release says that nobody holds the snapshot any more.
func Release(snapshot any) { shapeOf(reflect.TypeOf(snapshot).Elem()).snapshots.Put(snapshot) }

// assign makes to, which can be set, what value is, without sharing memory with it that could be
// changed.
func (s *shape) assign(to, value reflect.Value) {
	if !value.IsValid() {
		to.SetZero()
		return
	}
	if !value.CanAddr() {
		addressed := reflect.New(value.Type()).Elem()
		addressed.Set(value)
		value = addressed
	}
	s.copy(unsafe.Pointer(to.UnsafeAddr()), unsafe.Pointer(value.UnsafeAddr()))
}

// copyOf is a copy of a value that needn't be one, nor have an address. The copy has one.
func copyOf(value reflect.Value) reflect.Value {
	if !value.IsValid() {
		return value
	}
	copied := reflect.New(value.Type()).Elem()
	shapeOf(value.Type()).assign(copied, value)
	return copied
}

// copy makes the value of the type at one address what the one at another is. What the first points
// to is its own, and is used again where there is room.
//
// Of structs, what fields that aren't exported point to becomes shared: those of times and the
// like, which are never changed in place. Quantities are.
func (s *shape) copy(to, from unsafe.Pointer) {
	switch s.kind {
	case plain:
		copy(bytesOf(to, s.size), bytesOf(from, s.size))
	case text:
		*(*string)(to) = *(*string)(from)
	case pointer:
		s.copyPointer(to, from)
	case list:
		s.copyList(to, from)
	case structure:
		s.copyParts(to, from)
	case texts:
		if !sameTexts(to, from) {
			copyMap[string](to, from, func(text string) string { return text })
		}
	case resources:
		if !sameResources(to, from) {
			copyMap[corev1.ResourceName](to, from, resource.Quantity.DeepCopy)
		}
	case quantity:
		*(*resource.Quantity)(to) = (*resource.Quantity)(from).DeepCopy()
	case opaque:
		reflect.NewAt(s.t, to).Elem().Set(reflect.NewAt(s.t, from).Elem())
	default:
		s.copyOther(to, from)
	}
}

// copyParts looks at the parts of words that differ: of what is new, those that aren't zero.
func (s *shape) copyParts(to, from unsafe.Pointer) {
	v, w := wordsOf(to, s.size), wordsOf(from, s.size)
	for i := 0; i < len(v); i++ {
		if v[i] == w[i] {
			continue
		}
		p := &s.parts[s.partOf[i]]
		if p.shape == nil {
			copy(v[p.from:p.to], w[p.from:p.to])
		} else {
			offset := uintptr(p.from) * wordSize
			p.shape.copy(unsafe.Add(to, offset), unsafe.Add(from, offset))
		}
		i = int(p.to) - 1
	}
}

func (s *shape) copyPointer(to, from unsafe.Pointer) {
	p, q := (*unsafe.Pointer)(to), *(*unsafe.Pointer)(from)
	switch {
	case q == nil:
		*p = nil
		return
	case *p == nil:
		*p = reflect.New(s.element.t).UnsafePointer()
	}
	s.element.copy(*p, q)
}

func (s *shape) copyList(to, from unsafe.Pointer) {
	// Of any slice, what a slice of bytes has: an address, and a length and room in elements.
	list, has := (*[]byte)(to), *(*[]byte)(from)
	switch {
	case has == nil:
		*list = nil
		return
	case *list == nil || cap(*list) < len(has):
		value := reflect.NewAt(s.t, to).Elem()
		larger := reflect.MakeSlice(s.t, len(has), len(has))
		reflect.Copy(larger, value) // with what its elements point to
		value.Set(larger)
	default:
		*list = (*list)[:len(has)]
	}
	p, q := unsafe.Pointer(unsafe.SliceData(*list)), unsafe.Pointer(unsafe.SliceData(has))
	size, n := s.element.size, uintptr(len(has))
	if s.element.kind == plain {
		copy(bytesOf(p, n*size), bytesOf(q, n*size))
		return
	}
	for i := range n {
		s.element.copy(unsafe.Add(p, i*size), unsafe.Add(q, i*size))
	}
}

func (s *shape) copyOther(to, from unsafe.Pointer) {
	value, other := reflect.NewAt(s.t, to).Elem(), reflect.NewAt(s.t, from).Elem()
	switch {
	case s.t.Kind() == reflect.Map && !other.IsNil():
		value.Set(reflect.MakeMapWithSize(s.t, other.Len()))
		for each := other.MapRange(); each.Next(); {
			value.SetMapIndex(each.Key(), copyOf(each.Value()))
		}
	case s.t.Kind() == reflect.Interface && !other.IsNil():
		value.Set(copyOf(other.Elem()))
	default:
		value.Set(other)
	}
}

func copyMap[K comparable, V any](to, from unsafe.Pointer, copied func(V) V) {
	value, other := (*map[K]V)(to), *(*map[K]V)(from)
	switch {
	case other == nil:
		*value = nil
		return
	case *value == nil:
		*value = make(map[K]V, len(other))
	default:
		clear(*value)
	}
	for key, element := range other {
		(*value)[key] = copied(element)
	}
}
