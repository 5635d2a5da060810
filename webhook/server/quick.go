package server

import (
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/chain/jsondiff"
)

// quick are the operations of a patch that come of comparing objects in their Go type alone, which
// is a tenth of the work of diff. It is false where they might not do to what was sent what diff's
// do: where a part of it would be replaced, which may have fields that the type doesn't know, or
// something belongs below what wasn't sent.
func quick(sent []byte, original, changed any) ([]jsondiff.Operation, bool) {
	before, typed := original.(runtime.Object)
	after, same := changed.(runtime.Object)
	if !typed || !same || reflect.TypeOf(before) != reflect.TypeOf(after) || isNil(before) || isNil(after) {
		return nil, false
	}
	operations, err := jsondiff.Of(before, after)
	if err != nil {
		return nil, false
	}
	s := sentDocument{data: sent}
	for i := range operations {
		if !s.fits(&operations[i]) {
			return nil, false
		}
	}
	return operations, true
}

func isNil(object runtime.Object) bool {
	v := reflect.ValueOf(object)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// sentDocument is what was sent, while operations are looked at one after the other.
type sentDocument struct {
	data []byte
	// lists have got or lost elements by the operations so far: which of both, by path. Their other
	// elements have moved.
	lists map[string]string
	// last is where the value is that was looked for last.
	last     string
	position int
}

// fits tells whether an operation can be done to the document and loses nothing of it. Where what
// it replaces wasn't sent it makes an addition of it.
func (s *sentDocument) fits(o *jsondiff.Operation) bool {
	cut := strings.LastIndexByte(o.Path, '/')
	if cut < 0 {
		return false
	}
	parent, key := o.Path[:cut], unescapePointer.Replace(o.Path[cut+1:])
	for list, did := range s.lists {
		if strings.HasPrefix(o.Path, list+"/") && (list != parent || did != o.Op) {
			return false
		}
	}
	at := s.find(parent)
	if at < 0 {
		return false
	}
	plain := len(o.Value) > 0 && o.Value[0] != '{' && o.Value[0] != '['
	switch s.data[at] {
	case '{':
		was := member(s.data, at, key)
		switch o.Op {
		case "add":
			return true
		case "remove":
			return was >= 0
		}
		if was < 0 {
			o.Op = "add"
			return true
		}
		return plain || s.data[was] == 'n' // null
	case '[':
		if o.Op == "replace" {
			return plain
		}
		if s.lists == nil {
			s.lists = map[string]string{}
		}
		s.lists[parent] = o.Op
		return true
	}
	return false
}

// find is where the value at a pointer is, -1 where there is none.
func (s *sentDocument) find(pointer string) int {
	if pointer != "" && pointer == s.last {
		return s.position
	}
	at := space(s.data, 0)
	for segment := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		if at < 0 || at >= len(s.data) {
			return -1
		}
		if s.data[at] == '[' {
			n, err := strconv.Atoi(segment)
			if err != nil {
				return -1
			}
			at = element(s.data, at, n)
			continue
		}
		at = member(s.data, at, unescapePointer.Replace(segment))
	}
	if at >= len(s.data) {
		return -1
	}
	s.last, s.position = pointer, at
	return at
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
