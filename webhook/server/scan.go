package server

import "bytes"

// The functions here find things in JSON without decoding it, which is most of what a review costs.
// They take it to be well-formed: what isn't they may take for something else, but they end, and
// stay within it. Who decodes what they found sees what is wrong.

// space is where the next thing begins that is no white space, at or after i.
func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// text is where the string that begins at i has ended, -1 where it doesn't.
func text(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// past is where the value that begins at i has ended, -1 where it doesn't.
func past(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return text(data, i)
	case '{', '[':
		depth := 0
		for i < len(data) {
			switch data[i] {
			case '"':
				if i = text(data, i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	if end := bytes.IndexAny(data[i:], ",]} \n\t\r"); end > 0 {
		return i + end
	}
	return -1
}

// members calls see with each member of the object that begins at i, until it says that it has seen
// enough: with the key as it is written, and where the value begins. It is false where there is no
// object.
func members(data []byte, i int, see func(key []byte, at int) (enough bool)) bool {
	if i >= len(data) || data[i] != '{' {
		return false
	}
	for i = space(data, i+1); i < len(data) && data[i] == '"'; i = space(data, i+1) {
		end := text(data, i)
		if end < 0 {
			return false
		}
		key := data[i+1 : end-1]
		if i = space(data, end); i >= len(data) || data[i] != ':' {
			return false
		}
		if i = space(data, i+1); see(key, i) {
			return true
		}
		if i = past(data, i); i < 0 {
			return false
		}
		if i = space(data, i); i >= len(data) || data[i] != ',' {
			break
		}
	}
	return i < len(data) && data[i] == '}'
}

// member is where the value of an object's member begins, -1 where there is none. A key that is
// written with escapes isn't found.
func member(data []byte, i int, key string) int {
	found := -1
	members(data, i, func(k []byte, at int) bool {
		if string(k) == key {
			found = at
		}
		return found >= 0
	})
	return found
}

// element is where an array's nth element begins, -1 where it has none.
func element(data []byte, i, n int) int {
	if i >= len(data) || data[i] != '[' {
		return -1
	}
	for i = space(data, i+1); i < len(data) && data[i] != ']'; n-- {
		if n == 0 {
			return i
		}
		if i = past(data, i); i < 0 {
			return -1
		}
		if i = space(data, i); i >= len(data) || data[i] != ',' {
			return -1
		}
		i = space(data, i+1)
	}
	return -1
}
