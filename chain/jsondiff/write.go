package jsondiff

import (
	"encoding/json"
	"reflect"
	"strconv"
	"unsafe"
)

// value writes a value of the shape.
func (w *walk) value(s *shape, value reflect.Value) {
	for value.Kind() == reflect.Interface && !value.IsNil() {
		value = value.Elem()
		s = shapeOf(value.Type())
	}
	switch {
	case value.CanAddr():
		w.valueAt(s, unsafe.Pointer(value.UnsafeAddr()))
	case !s.own && value.Kind() == reflect.String:
		w.written, w.err = writeText(w.written, value.String())
	default:
		w.marshal(value.Interface())
	}
}

// deepest is how deep a value is written without the library, which finds out that a value contains
// itself.
const deepest = 500

// valueAt writes a value of the shape that is at an address. Most of what plugins set is made of
// texts, numbers, lists and structs of them, and takes no library.
func (w *walk) valueAt(s *shape, p unsafe.Pointer) {
	w.depth++
	switch {
	case w.err != nil:
	case s.own, w.depth > deepest:
		w.marshal(reflect.NewAt(s.t, p).Interface())
	case s.kind == text:
		w.written, w.err = writeText(w.written, *(*string)(p))
	case s.kind == pointer:
		if to := *(*unsafe.Pointer)(p); to != nil {
			w.valueAt(s.element, to)
		} else {
			w.written = append(w.written, "null"...)
		}
	case s.kind == list && s.element.t.Kind() != reflect.Uint8:
		w.listAt(s, p)
	case s.byField:
		w.written = append(w.written, '{')
		w.fieldsAt(s, p)
		w.written = append(w.written, '}')
	case s.t.Kind() == reflect.Bool:
		w.written = strconv.AppendBool(w.written, *(*bool)(p))
	case s.t.Kind() == reflect.Int32:
		w.written = strconv.AppendInt(w.written, int64(*(*int32)(p)), 10)
	case s.t.Kind() == reflect.Int64:
		w.written = strconv.AppendInt(w.written, *(*int64)(p), 10)
	default:
		w.marshal(reflect.NewAt(s.t, p).Interface())
	}
	w.depth--
}

func (w *walk) listAt(s *shape, p unsafe.Pointer) {
	element, n := s.leads(p)
	if element == nil {
		w.written = append(w.written, "null"...)
		return
	}
	w.written = append(w.written, '[')
	for i := range n {
		if i > 0 {
			w.written = append(w.written, ',')
		}
		w.valueAt(s.element, unsafe.Add(element, uintptr(i)*s.element.size))
	}
	w.written = append(w.written, ']')
}

// fieldsAt writes the fields of a struct that are there.
func (w *walk) fieldsAt(s *shape, p unsafe.Pointer) {
	for i := range s.fields {
		f := &s.fields[i]
		at := unsafe.Add(p, f.offset)
		switch {
		case f.inline:
			w.fieldsAt(f.shape, at)
			continue
		case f.omitEmpty && f.shape.empty(at):
			continue
		}
		if w.written[len(w.written)-1] != '{' {
			w.written = append(w.written, ',')
		}
		w.written = append(w.written, f.written...)
		w.valueAt(f.shape, at)
	}
}

// empty tells whether a field of the shape isn't there where it is omitted when it is empty.
func (s *shape) empty(p unsafe.Pointer) bool {
	switch s.kind {
	case text, list:
		return *(*int)(unsafe.Add(p, wordSize)) == 0 // the length of either
	case pointer:
		return *(*unsafe.Pointer)(p) == nil
	case structure:
		return false
	}
	return isEmpty(reflect.NewAt(s.t, p).Elem())
}

func (w *walk) marshal(value any) {
	data, err := json.Marshal(value)
	w.written, w.err = append(w.written, data...), err
}

// writeText appends a text, which most often is in JSON as it is.
func writeText(b []byte, text string) ([]byte, error) {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			data, err := json.Marshal(text)
			return append(b, data...), err
		}
	}
	return append(append(append(b, '"'), text...), '"'), nil
}
