// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
)

// The reader looks at each line once, in order, so looking must be cheap: the functions here find the
// members of a JSON object without decoding them. Workers decode.

// maxDepth is how deep JSON may be nested, as encoding/json has it.
const maxDepth = 10000

var (
	errSyntax = errors.New("not JSON")
	errEnded  = errors.New("the JSON ends early")
)

// isSpace, and isPlain for bytes of a string that need no further look.
var isSpace, isPlain = [256]bool{' ': true, '\t': true, '\n': true, '\r': true}, plainBytes()

func plainBytes() (plain [256]bool) {
	for b := 0x20; b < 256; b++ {
		plain[b] = b != '"' && b != '\\'
	}
	return plain
}

// skipSpace returns the index of the first byte from i on that isn't white space.
func skipSpace(data []byte, i int) int {
	for i < len(data) && isSpace[data[i]] {
		i++
	}
	return i
}

// skipValue returns the index behind the JSON value that begins at data[i]. It checks the syntax of
// all that it passes.
func skipValue(data []byte, i, depth int) (int, error) {
	if i >= len(data) {
		return i, errEnded
	}
	switch c := data[i]; {
	case c == '"':
		return skipString(data, i)
	case c == '{':
		return skipMembers(data, i, depth, nil)
	case c == '[':
		return skipElements(data, i, depth, nil)
	case c == 't':
		return skipWord(data, i, "true")
	case c == 'f':
		return skipWord(data, i, "false")
	case c == 'n':
		return skipWord(data, i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(data, i)
	}
	return i, errSyntax
}

// skipMembers passes an object, and calls f, if it isn't nil, with each member's name, as it is
// written, and value.
func skipMembers(data []byte, i, depth int, f func(name, value []byte) error) (int, error) {
	if depth >= maxDepth {
		return i, errSyntax
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(data) {
			return i, errEnded
		}
		if data[i] != '"' {
			return i, errSyntax
		}
		end, err := skipString(data, i)
		if err != nil {
			return end, err
		}
		name := data[i+1 : end-1]
		if i = skipSpace(data, end); i >= len(data) {
			return i, errEnded
		}
		if data[i] != ':' {
			return i, errSyntax
		}
		i = skipSpace(data, i+1)
		if end, err = skipValue(data, i, depth+1); err != nil {
			return end, err
		}
		if f != nil {
			if err := f(name, data[i:end]); err != nil {
				return end, err
			}
		}
		if i = skipSpace(data, end); i >= len(data) {
			return i, errEnded
		}
		switch data[i] {
		case '}':
			return i + 1, nil
		case ',':
			i = skipSpace(data, i+1)
		default:
			return i, errSyntax
		}
	}
}

// skipElements passes an array, and calls f, if it isn't nil, with each element.
func skipElements(data []byte, i, depth int, f func(element []byte) error) (int, error) {
	if depth >= maxDepth {
		return i, errSyntax
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := skipValue(data, i, depth+1)
		if err != nil {
			return end, err
		}
		if f != nil {
			if err := f(data[i:end]); err != nil {
				return end, err
			}
		}
		if i = skipSpace(data, end); i >= len(data) {
			return i, errEnded
		}
		switch data[i] {
		case ']':
			return i + 1, nil
		case ',':
			i = skipSpace(data, i+1)
		default:
			return i, errSyntax
		}
	}
}

func skipString(data []byte, i int) (int, error) {
	for i++; i < len(data); i++ {
		if isPlain[data[i]] {
			continue
		}
		switch data[i] {
		case '"':
			return i + 1, nil
		case '\\':
			if i++; i >= len(data) {
				return i, errEnded
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(data) {
						return i, errEnded
					}
					if c := data[i] | 0x20; (c < '0' || c > '9') && (c < 'a' || c > 'f') || data[i] < '0' {
						return i, errSyntax
					}
				}
			default:
				return i, errSyntax
			}
		default:
			return i, errSyntax
		}
	}
	return i, errEnded
}

func skipWord(data []byte, i int, word string) (int, error) {
	for j := range len(word) {
		if i+j >= len(data) {
			return i + j, errEnded
		}
		if data[i+j] != word[j] {
			return i + j, errSyntax
		}
	}
	return i + len(word), nil
}

func skipNumber(data []byte, i int) (int, error) {
	if data[i] == '-' {
		i++
	}
	first := i
	digits := func() bool {
		start := i
		for i < len(data) && data[i] >= '0' && data[i] <= '9' {
			i++
		}
		return i > start
	}
	missing := func() (int, error) {
		if i >= len(data) {
			return i, errEnded
		}
		return i, errSyntax
	}
	if !digits() {
		return missing()
	}
	if data[first] == '0' && i > first+1 {
		return first + 1, errSyntax
	}
	if i < len(data) && data[i] == '.' {
		if i++; !digits() {
			return missing()
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			return missing()
		}
	}
	return i, nil
}

// eachMember calls f with the members of a JSON object, which is all that data may hold.
func eachMember(data []byte, f func(name, value []byte) error) error {
	return whole(data, '{', func(i int) (int, error) { return skipMembers(data, i, 0, f) })
}

// eachElement calls f with the elements of a JSON array, which is all that data may hold.
func eachElement(data []byte, f func(element []byte) error) error {
	return whole(data, '[', func(i int) (int, error) { return skipElements(data, i, 0, f) })
}

func whole(data []byte, opening byte, skip func(i int) (int, error)) error {
	i := skipSpace(data, 0)
	if i >= len(data) {
		return errEnded
	}
	if data[i] != opening {
		return errSyntax
	}
	end, err := skip(i)
	if err != nil {
		return err
	}
	if skipSpace(data, end) != len(data) {
		return errSyntax
	}
	return nil
}

// find returns the value of an object's member along a path, or nil if there is none.
func find(data []byte, path ...string) []byte {
	for _, name := range path {
		var found []byte
		if err := eachMember(data, func(n, value []byte) error {
			if string(n) == name {
				found = value
			}
			return nil
		}); err != nil || found == nil {
			return nil
		}
		data = found
	}
	return data
}

// text returns the string that a JSON value is, or "" if it is another value.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// isNull reports whether a value is missing or null.
func isNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// A member is one of an object that setMembers changes.
type member struct {
	name string
	// value is the new JSON; nil removes the member.
	value []byte
}

// quoted returns a string as JSON; an empty string is no member.
func quoted(s string) []byte {
	if s == "" {
		return nil
	}
	data, _ := json.Marshal(s) // strings can be marshaled
	return data
}

// setMembers returns a copy of a JSON object with changed members. Members that the object doesn't
// have yet are added. If data is no object it returns nil.
func setMembers(data []byte, changes ...member) []byte {
	out := make([]byte, 1, len(data)+128)
	out[0] = '{'
	add := func(name, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), name...), `":`...), value...)
	}
	done := make([]bool, len(changes))
	err := eachMember(data, func(name, value []byte) error {
		for i, c := range changes {
			if string(name) == c.name {
				if c.value != nil && !done[i] {
					add(name, c.value)
				}
				done[i] = true
				return nil
			}
		}
		add(name, value)
		return nil
	})
	if err != nil {
		return nil
	}
	for i, c := range changes {
		if !done[i] && c.value != nil {
			add([]byte(c.name), c.value)
		}
	}
	return append(out, '}')
}

// setMetadata returns a copy of an object with changed members of its metadata.
func setMetadata(object []byte, changes ...member) []byte {
	metadata := find(object, "metadata")
	if isNull(metadata) {
		metadata = []byte("{}")
	}
	return setMembers(object, member{"metadata", setMembers(metadata, changes...)})
}
