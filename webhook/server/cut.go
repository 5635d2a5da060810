package server

import (
	"bytes"
	"slices"
)

// cutOut returns a review without the objects in its request, and these. To decode what is around
// them alone saves going over them twice more, and most of a review is objects. Where it is written
// in an unusual way all of it is returned, and no objects.
func cutOut(body []byte) (around, object, old []byte) {
	d := scan(body)
	var pieces [][]byte
	rest := 0
	cut := func(into *[]byte) (usual bool) {
		value, err := d.ReadValue()
		if err != nil || *into != nil {
			return false
		}
		if value.Kind() == '{' {
			end := int(d.InputOffset())
			at := end - len(value)
			*into = body[at:end:end]
			pieces = append(pieces, body[rest:at], []byte("null"))
			rest = end
		}
		return true
	}
	requests := 0
	usual := members(d, func(name []byte) bool {
		if escaped(name) {
			return false
		}
		if string(name) != "request" || d.PeekKind() != '{' {
			return d.SkipValue() == nil
		}
		requests++
		return members(d, func(name []byte) bool {
			switch {
			case escaped(name):
				return false
			case string(name) == "object":
				return cut(&object)
			case string(name) == "oldObject":
				return cut(&old)
			default:
				return d.SkipValue() == nil
			}
		})
	})
	if !usual || requests != 1 || pieces == nil {
		return body, nil, nil
	}
	return slices.Concat(append(pieces, body[rest:])...), object, old
}

func escaped(name []byte) bool { return bytes.IndexByte(name, '\\') >= 0 }
