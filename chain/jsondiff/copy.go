package jsondiff

import (
	"reflect"
	"sync"
	"time"
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
	t := from.Type().Elem()
	to := poolOf(t).Get()
	copierOf(t)(reflect.ValueOf(to).UnsafePointer(), from.UnsafePointer())
	return to
}

// Release says that nobody holds the snapshot any more.
func Release(snapshot any) { poolOf(reflect.TypeOf(snapshot).Elem()).Put(snapshot) }

var pools sync.Map // of *sync.Pool by reflect.Type

func poolOf(t reflect.Type) *sync.Pool {
	if p, ok := pools.Load(t); ok {
		return p.(*sync.Pool)
	}
	p, _ := pools.LoadOrStore(t, &sync.Pool{New: func() any { return reflect.New(t).Interface() }})
	return p.(*sync.Pool)
}

// assign makes to, which can be set, what value is, without sharing memory with it that could be
// changed.
func assign(to, value reflect.Value) {
	if !value.IsValid() {
		to.SetZero()
		return
	}
	if !value.CanAddr() {
		addressed := reflect.New(value.Type()).Elem()
		addressed.Set(value)
		value = addressed
	}
	copierOf(to.Type())(unsafe.Pointer(to.UnsafeAddr()), unsafe.Pointer(value.UnsafeAddr()))
}

// copyOf is a copy of a value that needn't have an address.
func copyOf(value reflect.Value) reflect.Value {
	if !value.IsValid() {
		return value
	}
	copied := reflect.New(value.Type()).Elem()
	assign(copied, value)
	return copied
}

// copier makes the value of a type at one address what the one at another is. What the first points
// to is its own, and is used again where there is room.
//
// Of structs, what fields that aren't exported point to becomes shared: those of times and the
// like, which are never changed in place. Quantities are.
type copier func(to, from unsafe.Pointer)

var copiers sync.Map // by reflect.Type

func copierOf(t reflect.Type) copier {
	return madeFor(&copiers, t, newCopier, func(ready <-chan struct{}, c *copier) copier {
		return func(to, from unsafe.Pointer) { <-ready; (*c)(to, from) }
	})
}

func newCopier(t reflect.Type) copier {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return move[uint8]
	case reflect.Int16, reflect.Uint16:
		return move[uint16]
	case reflect.Int32, reflect.Uint32, reflect.Float32:
		return move[uint32]
	case reflect.Int64, reflect.Uint64, reflect.Float64, reflect.Int, reflect.Uint:
		return move[uint64]
	case reflect.String:
		return move[string]
	case reflect.Pointer:
		return copyPointers(t)
	case reflect.Struct:
		return copyStructs(t)
	case reflect.Slice:
		return copySlices(t)
	case reflect.Map:
		return copyMaps(t)
	}
	return func(to, from unsafe.Pointer) {
		value := reflect.NewAt(t, from).Elem()
		if t.Kind() == reflect.Interface && !value.IsNil() {
			value = copyOf(value.Elem())
		}
		reflect.NewAt(t, to).Elem().Set(value)
	}
}

func move[T any](to, from unsafe.Pointer) { *(*T)(to) = *(*T)(from) }

func copyPointers(t reflect.Type) copier {
	element := copierOf(t.Elem())
	return func(to, from unsafe.Pointer) {
		p, q := (*unsafe.Pointer)(to), *(*unsafe.Pointer)(from)
		switch {
		case q == nil:
			*p = nil
			return
		case *p == nil:
			*p = reflect.New(t.Elem()).UnsafePointer()
		}
		element(*p, q)
	}
}

func copyStructs(t reflect.Type) copier {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return func(to, from unsafe.Pointer) { *(*resource.Quantity)(to) = (*resource.Quantity)(from).DeepCopy() }
	case reflect.TypeFor[time.Time]():
		return move[time.Time]
	}
	type member struct {
		offset uintptr
		copier copier
	}
	var members []member
	hidden := false
	for i := range t.NumField() {
		f := t.Field(i)
		if hidden = hidden || !f.IsExported(); f.IsExported() {
			members = append(members, member{f.Offset, copierOf(f.Type)})
		}
	}
	return func(to, from unsafe.Pointer) {
		if hidden {
			// The rest of the value comes with what isn't exported. It is copied once more, into
			// memory of its own.
			value := reflect.NewAt(t, to).Elem()
			value.Set(reflect.NewAt(t, from).Elem())
			for i := range value.NumField() {
				if t.Field(i).IsExported() {
					value.Field(i).SetZero()
				}
			}
		}
		for i := range members {
			m := &members[i]
			m.copier(unsafe.Add(to, m.offset), unsafe.Add(from, m.offset))
		}
	}
}

func copySlices(t reflect.Type) copier {
	element, size := copierOf(t.Elem()), t.Elem().Size()
	return func(to, from unsafe.Pointer) {
		// Of any slice, what a slice of bytes has: an address and a length in elements.
		had, has := *(*[]byte)(to), *(*[]byte)(from)
		value := reflect.NewAt(t, to).Elem()
		switch {
		case has == nil:
			value.SetZero()
			return
		case had == nil || cap(had) < len(has):
			value.Set(reflect.MakeSlice(t, len(has), len(has)))
		default:
			value.SetLen(len(has))
		}
		p, q := value.UnsafePointer(), unsafe.Pointer(unsafe.SliceData(has))
		if size == 1 {
			copy(unsafe.Slice((*byte)(p), len(has)), has)
			return
		}
		for i := range uintptr(len(has)) {
			element(unsafe.Add(p, i*size), unsafe.Add(q, i*size))
		}
	}
}

func copyMaps(t reflect.Type) copier {
	switch {
	case t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		return func(to, from unsafe.Pointer) {
			copyMap[string](to, from, func(text string) string { return text })
		}
	case t == reflect.TypeFor[corev1.ResourceList]():
		return func(to, from unsafe.Pointer) {
			copyMap[corev1.ResourceName](to, from, resource.Quantity.DeepCopy)
		}
	}
	return func(to, from unsafe.Pointer) {
		value, other := reflect.NewAt(t, to).Elem(), reflect.NewAt(t, from).Elem()
		if other.IsNil() {
			value.SetZero()
			return
		}
		value.Set(reflect.MakeMapWithSize(t, other.Len()))
		for each := other.MapRange(); each.Next(); {
			value.SetMapIndex(each.Key(), copyOf(each.Value()))
		}
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
