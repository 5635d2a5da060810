// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// A node is a value of a JSON document, which must be valid. To find the values on the paths of a
// patch, it cuts the document into pieces and decodes nothing. Decoding the whole object takes 140 µs
// more, where a review that is patched takes 400 µs, and gives a seventh fewer reviews per second. To
// measure that: go test -run=^$ -bench=Review/mutate ./remote
type node struct {
	value    []byte // without white space around it
	children map[string]*node
}

// kind returns the first byte of the value: '{', '[', 'n' for null, and so on.
func (n *node) kind() byte {
	if len(n.value) == 0 {
		return 0
	}
	return n.value[0]
}

// child returns a member of an object, or an element of an array, or nil if there is none. If members
// have the same name it returns the last one, as encoding/json does.
func (n *node) child(key string) *node {
	if n.children == nil {
		n.children = map[string]*node{}
		n.cut()
	}
	return n.children[key]
}

// cut finds all children at once, so that each value is read once for each value that it is in.
func (n *node) cut() {
	isObject := n.kind() == '{'
	if !isObject && n.kind() != '[' {
		return
	}
	rest := n.value[1:]
	for i := 0; ; i++ {
		name, value := strconv.Itoa(i), []byte(nil)
		if isObject {
			value, rest = cutValue(rest)
			name = unquote(value)
		}
		if value, rest = cutValue(rest); len(value) == 0 {
			return
		}
		n.children[name] = &node{value: value}
	}
}

// cutValue returns the first value of a list of values and separators, and the rest of the list. The
// value is empty at the end of the list.
func cutValue(list []byte) (value, rest []byte) {
	list = bytes.TrimLeft(list, " \t\r\n,:")
	depth := 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 { // the end of the list
				return list[:i], list[i:]
			}
		case '"':
			for i++; i < len(list) && list[i] != '"'; i++ {
				if list[i] == '\\' {
					i++
				}
			}
		case ' ', '\t', '\r', '\n', ',', ':':
			if depth == 0 {
				return list[:i], list[i:]
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			end := min(i+1, len(list))
			return list[:end], list[end:]
		}
	}
	return list, nil
}

// unquote returns the text of a JSON string.
func unquote(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}
