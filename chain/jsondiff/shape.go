package jsondiff

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// shape is what there is to know of a type.
type shape struct {
	// own says that values of the type write their JSON themselves.
	own    bool
	fields []field
}

// field is one of a struct that is in its JSON.
type field struct {
	name   string
	index  int
	offset uintptr
	// inline says that the fields of the field are the struct's own.
	inline bool
	// omitEmpty and omitZero say when it isn't there.
	omitEmpty, omitZero bool
	mergeKey            string
	same                same
}

// in tells whether the field is there.
func (f *field) in(value reflect.Value) bool {
	if f.omitZero && value.IsZero() {
		return false
	}
	if !f.omitEmpty {
		return true
	}
	switch value.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return value.Len() > 0
	case reflect.Struct:
		return true
	default:
		return !value.IsZero()
	}
}

var (
	shapes        sync.Map // by reflect.Type
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := newShape(t)
	shapes.Store(t, s)
	return s
}

func newShape(t reflect.Type) *shape {
	s := &shape{}
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		for _, form := range []reflect.Type{marshaler, textMarshaler} {
			s.own = s.own || t.Implements(form) || reflect.PointerTo(t).Implements(form)
		}
	}
	if s.own || t.Kind() != reflect.Struct {
		return s
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		inline := f.Anonymous && name == ""
		if name == "" {
			name = f.Name
		}
		has := func(option string) bool {
			return strings.Contains(","+options+",", ","+option+",")
		}
		s.fields = append(s.fields, field{name: name, index: i, offset: f.Offset, inline: inline,
			omitEmpty: has("omitempty"), omitZero: has("omitzero"), mergeKey: f.Tag.Get("patchMergeKey"),
			same: sameOf(f.Type)})
	}
	return s
}
