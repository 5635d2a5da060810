package jsondiff

import (
	"bytes"
	"reflect"
	"sync"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// same tells quickly whether two values of a type, given by their addresses, are alike to the last
// field. Those that are have the same JSON; of others the walk tells. Most of what two states of an
// object consist of is alike, and telling so takes a tenth of what reflection takes.
type same func(a, b unsafe.Pointer) bool

var sames sync.Map // by reflect.Type

func sameOf(t reflect.Type) same {
	return madeFor(&sames, t, newSame, func(ready <-chan struct{}, s *same) same {
		return func(a, b unsafe.Pointer) bool { <-ready; return (*s)(a, b) }
	})
}

// madeFor is what is made of a type, once. Types may contain themselves, and others may ask
// meanwhile: what is stored first is later, which waits for what is stored last.
func madeFor[F any](all *sync.Map, t reflect.Type, build func(reflect.Type) F,
	later func(ready <-chan struct{}, made *F) F) F {
	if made, ok := all.Load(t); ok {
		return made.(F)
	}
	made, ready := new(F), make(chan struct{})
	if other, ok := all.LoadOrStore(t, later(ready, made)); ok {
		return other.(F)
	}
	*made = build(t)
	close(ready)
	all.Store(t, *made)
	return *made
}

func newSame(t reflect.Type) same {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return alike[uint8]
	case reflect.Int16, reflect.Uint16:
		return alike[uint16]
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		return alike[uint32]
	case reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Int, reflect.Uint:
		return alike[uint64]
	case reflect.String:
		return alike[string]
	case reflect.Pointer:
		return samePointers(t)
	case reflect.Struct:
		return sameStructs(t)
	case reflect.Slice:
		return sameSlices(t)
	case reflect.Map:
		switch {
		case t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
			return sameMaps[string, string]
		case t == reflect.TypeFor[corev1.ResourceList]():
			// Of quantities == doesn't look into large ones, of which the walk tells.
			return sameMaps[corev1.ResourceName, resource.Quantity]
		}
	}
	return func(a, b unsafe.Pointer) bool {
		return reflect.DeepEqual(reflect.NewAt(t, a).Elem().Interface(), reflect.NewAt(t, b).Elem().Interface())
	}
}

func alike[T comparable](a, b unsafe.Pointer) bool { return *(*T)(a) == *(*T)(b) }

func samePointers(t reflect.Type) same {
	element := sameOf(t.Elem())
	return func(a, b unsafe.Pointer) bool {
		p, q := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return p == q || p != nil && q != nil && element(p, q)
	}
}

// wordSize is that of what structs are compared by at a time.
const wordSize = 8

// sameStructs compares structs word by word, and looks at the fields that a word is of only where
// two words differ. A copy of an object shares its texts with it, has the same numbers and lacks
// the same optional fields, so that few words do.
func sameStructs(t reflect.Type) same {
	var members []member
	members = appendMembers(members, t, 0)
	if t.Size()%wordSize != 0 || t.Align()%wordSize != 0 {
		return func(a, b unsafe.Pointer) bool { return allSame(members, a, b) }
	}
	// What each word is of; nothing for one that pads.
	words := make([][]member, t.Size()/wordSize)
	for _, m := range members {
		for word := m.offset / wordSize; word*wordSize < m.offset+m.size; word++ {
			words[word] = append(words[word], m)
		}
	}
	return func(a, b unsafe.Pointer) bool {
		v, w := unsafe.Slice((*uint64)(a), len(words)), unsafe.Slice((*uint64)(b), len(words))
		for i, word := range v {
			if word != w[i] && !allSame(words[i], a, b) {
				return false
			}
		}
		return true
	}
}

// member is a field of a struct, or of a struct in it.
type member struct {
	offset, size uintptr
	same         same
}

func appendMembers(members []member, t reflect.Type, offset uintptr) []member {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Struct {
			members = appendMembers(members, f.Type, offset+f.Offset)
			continue
		}
		members = append(members, member{offset + f.Offset, f.Type.Size(), sameOf(f.Type)})
	}
	return members
}

func allSame(members []member, a, b unsafe.Pointer) bool {
	for i := range members {
		m := &members[i]
		if !m.same(unsafe.Add(a, m.offset), unsafe.Add(b, m.offset)) {
			return false
		}
	}
	return true
}

func sameSlices(t reflect.Type) same {
	if t.Elem().Kind() == reflect.Uint8 {
		return sameBytes // which there are many of in managed fields
	}
	element, size := sameOf(t.Elem()), t.Elem().Size()
	return func(a, b unsafe.Pointer) bool {
		// Of any slice, what a slice of bytes has: an address and a length in elements.
		v, w := *(*[]byte)(a), *(*[]byte)(b)
		if len(v) != len(w) || (v == nil) != (w == nil) {
			return false
		}
		p, q := unsafe.Pointer(unsafe.SliceData(v)), unsafe.Pointer(unsafe.SliceData(w))
		if p == q {
			return true
		}
		for i := range uintptr(len(v)) {
			if !element(unsafe.Add(p, i*size), unsafe.Add(q, i*size)) {
				return false
			}
		}
		return true
	}
}

func sameBytes(a, b unsafe.Pointer) bool {
	v, w := *(*[]byte)(a), *(*[]byte)(b)
	return (v == nil) == (w == nil) && bytes.Equal(v, w)
}

func sameMaps[K, V comparable](a, b unsafe.Pointer) bool {
	v, w := *(*map[K]V)(a), *(*map[K]V)(b)
	if len(v) != len(w) || (v == nil) != (w == nil) {
		return false
	}
	for key, value := range v {
		if other, ok := w[key]; !ok || other != value {
			return false
		}
	}
	return true
}
