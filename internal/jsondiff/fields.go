// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jsondiff

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// field is a struct's field that is in its JSON.
type field struct {
	index int
	name  string
	// inline reports whether the fields of the field belong to the struct itself, as those of an
	// embedded struct do.
	inline bool
	// omitEmpty and omitZero are the options of the tag.
	omitEmpty, omitZero bool
	// mergeKey is the JSON name of the field that identifies the elements of a list, empty if none
	// does.
	mergeKey string
}

// isPresent reports whether the field is in the JSON of its struct.
func (f *field) isPresent(value reflect.Value) bool {
	if f.omitZero && value.IsZero() {
		return false
	}
	return !f.omitEmpty || !isEmpty(value)
}

// isEmpty reports whether a value is empty by the rules of encoding/json.
func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return value.Len() == 0
	case reflect.Struct:
		return false
	default:
		return value.IsZero()
	}
}

var knownFields sync.Map // []field by reflect.Type

// fieldsOf returns the fields of a struct.
func fieldsOf(t reflect.Type) []field {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && (!f.Anonymous || !isStruct(f.Type)) {
			continue
		}
		if !isName(name) {
			name = ""
		}
		inline := f.Anonymous && name == ""
		if name == "" {
			name = f.Name
		}
		has := func(option string) bool { return strings.Contains(","+options+",", ","+option+",") }
		fields = append(fields, field{index: i, name: name, inline: inline, omitEmpty: has("omitempty"),
			omitZero: has("omitzero"), mergeKey: f.Tag.Get("patchMergeKey")})
	}
	known, _ := knownFields.LoadOrStore(t, fields)
	return known.([]field)
}

// isStruct reports whether a type is a struct, or a pointer to one.
func isStruct(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// isName reports whether encoding/json accepts a name in a tag.
func isName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

	selfEncoding sync.Map // bool by reflect.Type
)

// encodesItself reports whether values of the type have their own JSON, which doesn't follow from
// their fields.
func encodesItself(t reflect.Type) bool {
	if known, ok := selfEncoding.Load(t); ok {
		return known.(bool)
	}
	own := t == reflect.TypeFor[json.Number]() // a text that is written as a number
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		for _, form := range []reflect.Type{marshaler, textMarshaler} {
			own = own || t.Implements(form) || reflect.PointerTo(t).Implements(form)
		}
	}
	selfEncoding.Store(t, own)
	return own
}
