package server

import (
	"bytes"
	"encoding/json"
	"slices"
)

// cutOut returns a review without the objects in its request, and these. To decode what is around
// them alone saves going over them twice more, and most of a review is objects. Where it is written
// in an unusual way all of it is returned, and no objects.
func cutOut(body []byte) (around, object, old []byte) {
	var pieces [][]byte
	usual, rest := true, 0
	cut := func(at int, into *[]byte) {
		end := past(body, at)
		if usual = usual && end >= 0 && *into == nil && json.Valid(body[at:end]); usual {
			*into = body[at:end:end]
			pieces = append(pieces, body[rest:at], []byte("null"))
			rest = end
		}
	}
	requests := 0
	whole := members(body, space(body, 0), func(key []byte, at int) bool {
		usual = usual && bytes.IndexByte(key, '\\') < 0
		if string(key) != "request" {
			return !usual
		}
		requests++
		members(body, at, func(key []byte, at int) bool {
			usual = usual && bytes.IndexByte(key, '\\') < 0
			switch {
			case at >= len(body) || body[at] != '{':
			case string(key) == "object":
				cut(at, &object)
			case string(key) == "oldObject":
				cut(at, &old)
			}
			return !usual
		})
		return !usual
	})
	if !usual || !whole || requests != 1 || pieces == nil {
		return body, nil, nil
	}
	return slices.Concat(append(pieces, body[rest:])...), object, old
}
