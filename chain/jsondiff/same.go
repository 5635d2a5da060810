package jsondiff

import (
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bytesOf is the memory of a value.
func bytesOf(p unsafe.Pointer, size uintptr) []byte { return unsafe.Slice((*byte)(p), size) }

// differsAt is where, from a word on, the first word is that isn't the same in two values, which
// lie on words: their size where there is none.
func differsAt(p, q unsafe.Pointer, from, size uintptr) uintptr {
	type words [4]uintptr
	at := from
	for ; at+unsafe.Sizeof(words{}) <= size; at += unsafe.Sizeof(words{}) {
		v, w := (*words)(unsafe.Add(p, at)), (*words)(unsafe.Add(q, at))
		if v[0] != w[0] || v[1] != w[1] || v[2] != w[2] || v[3] != w[3] {
			break
		}
	}
	for at < size && *(*uintptr)(unsafe.Add(p, at)) == *(*uintptr)(unsafe.Add(q, at)) {
		at += wordSize
	}
	return at
}

// same tells quickly whether two values of the type, given by their addresses, are alike to the
// last field. Those that are have the same JSON; of others the walk tells.
func (s *shape) same(a, b unsafe.Pointer) bool {
	switch s.kind {
	case plain, opaque:
		return string(bytesOf(a, s.size)) == string(bytesOf(b, s.size))
	case text:
		return *(*string)(a) == *(*string)(b)
	case pointer:
		p, q := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return p == q || p != nil && q != nil && s.element.same(p, q)
	case list:
		return s.element.sameLists(a, b)
	case structure, quantity:
		return s.sameParts(a, b)
	case texts:
		return sameTexts(a, b)
	case resources:
		return sameResources(a, b)
	}
	return reflect.DeepEqual(reflect.NewAt(s.t, a).Elem().Interface(), reflect.NewAt(s.t, b).Elem().Interface())
}

// sameParts compares structs word by word, and looks at the part that a word is of only where two
// words differ. A copy of an object shares its texts with it, has the same numbers and lacks the
// same optional fields, so that few words do.
func (s *shape) sameParts(a, b unsafe.Pointer) bool {
	for at := uintptr(0); ; {
		at = differsAt(a, b, at, s.size)
		if at == s.size {
			return true
		}
		i := s.partOf[at/wordSize]
		p := &s.parts[i]
		if p.shape == nil {
			for _, f := range s.numbers[i] {
				if string(bytesOf(unsafe.Add(a, f.offset), f.size)) != string(bytesOf(unsafe.Add(b, f.offset),
					f.size)) {
					return false
				}
			}
		} else if offset := uintptr(p.from) * wordSize; !p.shape.same(unsafe.Add(a, offset), unsafe.Add(b, offset)) {
			return false
		}
		at = uintptr(p.to) * wordSize
	}
}

// sameLists compares slices of elements of the type.
func (s *shape) sameLists(a, b unsafe.Pointer) bool {
	// Of any slice, what a slice of bytes has: an address and a length in elements.
	v, w := *(*[]byte)(a), *(*[]byte)(b)
	if len(v) != len(w) || (v == nil) != (w == nil) {
		return false
	}
	p, q := unsafe.Pointer(unsafe.SliceData(v)), unsafe.Pointer(unsafe.SliceData(w))
	if p == q {
		return true
	}
	n := uintptr(len(v))
	if s.kind == plain {
		return string(bytesOf(p, n*s.size)) == string(bytesOf(q, n*s.size))
	}
	for i := range n {
		if !s.same(unsafe.Add(p, i*s.size), unsafe.Add(q, i*s.size)) {
			return false
		}
	}
	return true
}

// sameMaps compares values by ==. Of quantities that doesn't look into large ones, of which the
// walk tells.
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

func sameTexts(a, b unsafe.Pointer) bool { return sameMaps[string, string](a, b) }

func sameResources(a, b unsafe.Pointer) bool {
	return sameMaps[corev1.ResourceName, resource.Quantity](a, b)
}
