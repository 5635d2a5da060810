package jsondiff

import (
	"reflect"
	"strconv"
)

// write writes a value as JSON, null where it is invalid. Most of what plugins set are plain texts
// and numbers, which needn't go through the library.
func (w *walk) write(value reflect.Value) error {
	for value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	if !value.IsValid() {
		w.written.WriteString("null")
		return nil
	}
	if !shapeOf(value.Type()).own {
		switch {
		case value.Kind() == reflect.String && isPlain(value.String()):
			w.written.WriteByte('"')
			w.written.WriteString(value.String())
			w.written.WriteByte('"')
			return nil
		case value.Kind() == reflect.Bool:
			w.written.Write(strconv.AppendBool(w.written.AvailableBuffer(), value.Bool()))
			return nil
		case value.CanInt():
			w.written.Write(strconv.AppendInt(w.written.AvailableBuffer(), value.Int(), 10))
			return nil
		}
	}
	// What has an address isn't copied to be written.
	if value.CanAddr() {
		value = value.Addr()
	}
	if err := w.encoder.Encode(value.Interface()); err != nil {
		return err
	}
	w.written.Truncate(w.written.Len() - 1) // the line's end
	return nil
}

// isPlain tells whether a text is written in JSON as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
