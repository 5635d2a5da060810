package server

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// scan reads JSON without decoding it, which is most of what a review costs. It takes what
// encoding/json takes.
func scan(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
}

// members calls see with the name of each member of the object that comes next, as it is written
// between its quotes, for as long as it returns true; it has to read or skip the value. The result
// is whether all have been seen.
func members(d *jsontext.Decoder, see func(name []byte) bool) bool {
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil || !see(name[1:len(name)-1]) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil
}

// enter goes on to a member of the object, or an element of the array, that comes next, and tells
// whether there is such a one. A name that is written with escapes isn't found.
func enter(d *jsontext.Decoder, key string) bool {
	switch d.PeekKind() {
	case '{':
		found := false
		members(d, func(name []byte) bool {
			found = string(name) == key
			return !found && d.SkipValue() == nil
		})
		return found
	case '[':
		n, err := strconv.Atoi(key)
		if err != nil {
			return false
		}
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		for ; d.PeekKind() != ']'; n-- {
			if n == 0 {
				return true
			}
			if d.SkipValue() != nil {
				return false
			}
		}
	}
	return false
}
