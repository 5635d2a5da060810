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
	// inline says that the fields of the field are the struct's own.
	inline bool
	// omitEmpty and omitZero say when the field isn't there.
	omitEmpty, omitZero bool
	// mergeKey is the JSON name of the field that tells elements of a list apart, empty if none
	// does.
	mergeKey string
}

// in reports whether the field is there.
func (f *field) in(value reflect.Value) bool {
	if f.omitZero && value.IsZero() {
		return false
	}
	return !f.omitEmpty || !isEmpty(value)
}

// isEmpty reports whether a value is empty, as encoding/json understands it.
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

// isName reports whether encoding/json takes a name from a tag.
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

// encodesItself reports whether values of the type have a JSON that their fields don't say.
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
