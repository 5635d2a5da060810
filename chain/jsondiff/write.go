package jsondiff

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// value writes a value of the shape. Most of what plugins set are plain texts and numbers, which
// need no library.
func (w *walk) value(s *shape, value reflect.Value) {
	for value.Kind() == reflect.Interface && !value.IsNil() {
		value = value.Elem()
		s = shapeOf(value.Type())
	}
	if !s.own {
		switch {
		case value.Kind() == reflect.String:
			w.written, w.err = writeText(w.written, value.String())
			return
		case value.Kind() == reflect.Bool:
			w.written = strconv.AppendBool(w.written, value.Bool())
			return
		case value.CanInt():
			w.written = strconv.AppendInt(w.written, value.Int(), 10)
			return
		}
	}
	if value.CanAddr() {
		value = value.Addr() // which takes no copy
	}
	data, err := json.Marshal(value.Interface())
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
