package jsondiff

import (
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
	if s, ok := sames.Load(t); ok {
		return s.(same)
	}
	// Types may contain themselves: what is stored first asks for what is stored last.
	sames.Store(t, same(func(a, b unsafe.Pointer) bool { return sameOf(t)(a, b) }))
	s := newSame(t)
	sames.Store(t, s)
	return s
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

func sameStructs(t reflect.Type) same {
	type member struct {
		offset uintptr
		same   same
	}
	members := make([]member, t.NumField())
	for i := range members {
		f := t.Field(i)
		members[i] = member{f.Offset, sameOf(f.Type)}
	}
	return func(a, b unsafe.Pointer) bool {
		for i := range members {
			m := &members[i]
			if !m.same(unsafe.Add(a, m.offset), unsafe.Add(b, m.offset)) {
				return false
			}
		}
		return true
	}
}

func sameSlices(t reflect.Type) same {
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
