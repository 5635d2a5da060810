package jsondiff

import (
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// assign makes to, which can be set, what value is, without sharing memory with it that could be
// changed.
func assign(to, value reflect.Value) {
	if !value.IsValid() {
		to.SetZero()
		return
	}
	to.Set(value)
	if part := partOf(to.Type()); part != nil {
		part(unsafe.Pointer(to.UnsafeAddr()))
	}
}

// part makes the value at an address, which has been assigned from another, share no memory with
// that any more. It is nil for a type whose values share none, as numbers and texts.
//
// Of structs, fields that aren't exported stay shared: those of times and the like, which are never
// changed in place. Quantities are.
type part func(unsafe.Pointer)

var parts sync.Map // by reflect.Type

func partOf(t reflect.Type) part {
	if p, ok := parts.Load(t); ok {
		return p.(part)
	}
	// As in sameOf.
	var p part
	made := make(chan struct{})
	if other, ok := parts.LoadOrStore(t, part(func(at unsafe.Pointer) {
		if <-made; p != nil {
			p(at)
		}
	})); ok {
		return other.(part)
	}
	p = newPart(t)
	close(made)
	parts.Store(t, p)
	return p
}

func newPart(t reflect.Type) part {
	switch t.Kind() {
	case reflect.Pointer:
		return partPointers(t)
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return func(at unsafe.Pointer) { *(*resource.Quantity)(at) = (*resource.Quantity)(at).DeepCopy() }
		}
		return partStructs(t)
	case reflect.Slice:
		return partSlices(t)
	case reflect.Map:
		return partMaps(t)
	case reflect.Interface:
		return func(at unsafe.Pointer) {
			if value := reflect.NewAt(t, at).Elem(); !value.IsNil() {
				value.Set(copyOf(value.Elem()))
			}
		}
	}
	return nil
}

// copyOf is a copy of a value that needn't have an address.
func copyOf(value reflect.Value) reflect.Value {
	if !value.IsValid() || partOf(value.Type()) == nil {
		return value
	}
	copied := reflect.New(value.Type()).Elem()
	assign(copied, value)
	return copied
}

func partPointers(t reflect.Type) part {
	element := partOf(t.Elem())
	return func(at unsafe.Pointer) {
		p := (*unsafe.Pointer)(at)
		if *p == nil {
			return
		}
		copied := reflect.New(t.Elem())
		copied.Elem().Set(reflect.NewAt(t.Elem(), *p).Elem())
		*p = copied.UnsafePointer()
		if element != nil {
			element(*p)
		}
	}
}

func partStructs(t reflect.Type) part {
	type member struct {
		offset uintptr
		part   part
	}
	var members []member
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if p := partOf(f.Type); p != nil {
			members = append(members, member{f.Offset, p})
		}
	}
	if len(members) == 0 {
		return nil
	}
	return func(at unsafe.Pointer) {
		for i := range members {
			members[i].part(unsafe.Add(at, members[i].offset))
		}
	}
}

func partSlices(t reflect.Type) part {
	element, size := partOf(t.Elem()), t.Elem().Size()
	return func(at unsafe.Pointer) {
		shared := reflect.NewAt(t, at).Elem()
		if shared.IsNil() {
			return
		}
		copied := reflect.MakeSlice(t, shared.Len(), shared.Len())
		reflect.Copy(copied, shared)
		shared.Set(copied)
		if element == nil {
			return
		}
		for i := range uintptr(copied.Len()) {
			element(unsafe.Add(copied.UnsafePointer(), i*size))
		}
	}
}

func partMaps(t reflect.Type) part {
	return func(at unsafe.Pointer) {
		shared := reflect.NewAt(t, at).Elem()
		if shared.IsNil() {
			return
		}
		copied := reflect.MakeMapWithSize(t, shared.Len())
		for each := shared.MapRange(); each.Next(); {
			copied.SetMapIndex(each.Key(), copyOf(each.Value()))
		}
		shared.Set(copied)
	}
}
