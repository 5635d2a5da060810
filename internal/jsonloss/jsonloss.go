// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsonloss finds typed objects whose JSON is another object. Kubernetes writes the result of a
// mutation as JSON and reads it again. Code that changes the typed object itself asks whether that is the
// same.
package jsonloss

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// huge is the smallest quantity for which it may matter how it was written. Beyond it sums in thousandths
// overflow, in other ways for 9300000000000000000 than for 9300P, its JSON. From 1000E on Kubernetes leaves
// out the unit.
var huge, negativeHuge = resource.MustParse("1P"), resource.MustParse("-1P")

// Has reports whether decoding the JSON of a typed object may give another object: the JSON leaves out empty
// lists and maps, and writes huge quantities in another way.
func Has(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && Has(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			q := v.Interface().(resource.Quantity)
			return q.Cmp(huge) >= 0 || q.Cmp(negativeHuge) <= 0
		}
		for _, field := range fieldsToLookAt(v.Type()) {
			value := v.Field(field.index)
			if field.omitsEmpty && !value.IsNil() && value.Len() == 0 || Has(value) {
				return true
			}
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && hasContent(v.Type().Elem()); i++ {
			if Has(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		if !hasContent(v.Type().Elem()) {
			return false
		}
		for entries := v.MapRange(); entries.Next(); {
			if Has(entries.Value()) {
				return true
			}
		}
	}
	return false
}

// hasContent reports whether a value of a type may have others in it.
func hasContent(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return true
	}
	return false
}

// A lookedAt is a field of a struct that Has looks at.
type lookedAt struct {
	index      int
	omitsEmpty bool // it is a list or map that the JSON leaves out if it is empty
}

// lookedAtFields holds the results of fieldsToLookAt, by type.
var lookedAtFields sync.Map

// fieldsToLookAt returns the fields of a struct whose content the JSON may leave out. A type that writes
// its own JSON has none.
func fieldsToLookAt(t reflect.Type) []lookedAt {
	if known, ok := lookedAtFields.Load(t); ok {
		return known.([]lookedAt)
	}
	var fields []lookedAt
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() || !hasContent(field.Type) || HasOwnJSON(t) {
			continue
		}
		kind := field.Type.Kind()
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields = append(fields, lookedAt{i,
			(kind == reflect.Slice || kind == reflect.Map) && strings.Contains(options, "omitempty")})
	}
	lookedAtFields.Store(t, fields)
	return fields
}

// HasOwnJSON reports whether a type has methods that encode or decode its JSON.
func HasOwnJSON(t reflect.Type) bool {
	if t.Name() == "" && t.Kind() != reflect.Struct {
		return false // it has no methods
	}
	pointer := reflect.PointerTo(t)
	return slices.ContainsFunc([]reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}, pointer.Implements)
}
