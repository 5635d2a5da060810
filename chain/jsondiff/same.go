package jsondiff

import (
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bytesOf is the memory of a value.
func bytesOf(p unsafe.Pointer, size uintptr) []byte { return unsafe.Slice((*byte)(p), size) }

// wordsOf is the memory of a value that lies on words.
func wordsOf(p unsafe.Pointer, size uintptr) []uintptr {
	return unsafe.Slice((*uintptr)(p), size/wordSize)
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
	v, w := wordsOf(a, s.size), wordsOf(b, s.size)
	for i := 0; i < len(v); i++ {
		if v[i] == w[i] {
			continue
		}
		p := &s.parts[s.partOf[i]]
		if p.shape == nil {
			for _, f := range s.numbers[s.partOf[i]] {
				if string(bytesOf(unsafe.Add(a, f.offset), f.size)) != string(bytesOf(unsafe.Add(b, f.offset),
					f.size)) {
					return false
				}
			}
		} else if offset := uintptr(p.from) * wordSize; !p.shape.same(unsafe.Add(a, offset), unsafe.Add(b, offset)) {
			return false
		}
		i = int(p.to) - 1
	}
	return true
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
