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

// A node is a value of a document. Its children are looked up all at once, when one is asked for,
// so that each value is read once for each value that it is in.
type node struct {
	value    []byte // as it is written
	read     bool
	members  map[string]*node
	elements []*node
}

// kind returns the kind of the value: '{', '[', 'n' for null, ….
func (n *node) kind() jsontext.Kind { return jsontext.Value(n.value).Kind() }

// child returns a member of an object, or an element of an array; nil if there is no such one. A
// name that is written with escapes isn't found. Of duplicate names the first one counts.
func (n *node) child(key string) *node {
	if !n.read {
		n.read = true
		n.readChildren()
	}
	if n.members != nil {
		return n.members[key]
	}
	if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.elements) {
		return n.elements[i]
	}
	return nil
}

func (n *node) readChildren() {
	d := scan(n.value)
	next := func() *node {
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		end := int(d.InputOffset())
		return &node{value: n.value[end-len(value) : end : end]}
	}
	switch d.PeekKind() {
	case '{':
		n.members = map[string]*node{}
		members(d, func(name []byte) bool {
			key := string(name)
			child := next()
			if _, there := n.members[key]; !there && child != nil {
				n.members[key] = child
			}
			return child != nil
		})
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() != ']' {
			child := next()
			if child == nil {
				return
			}
			n.elements = append(n.elements, child)
		}
	}
}
