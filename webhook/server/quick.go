package server

import (
	"bytes"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/jsondiff"
)

// quick makes the operations of a patch by comparing objects in their Go type alone, which
// saves turning both into JSON. It returns false if these operations might not do to what was sent
// what diff's do. That is so if they replace a part that may have fields which the type doesn't
// know, or if something belongs below what wasn't sent.
//
// Without it, remote's BenchmarkReview takes five times as long for a review to mutate.
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
	if len(operations) == 0 {
		return nil, true
	}
	s := sentDocument{root: node{value: bytes.TrimSpace(sent)}}
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

// A sentDocument is what was sent, while operations are looked at one after the other.
type sentDocument struct {
	root node
	// lists holds the lists that the operations so far add elements to or remove elements from, by path.
	// The value is the kind of these operations. The other elements of such a list have moved.
	lists map[string]string
}

// fits reports whether an operation can be done to the document and loses nothing of it. If what the
// operation replaces wasn't sent, fits makes an addition of it.
func (s *sentDocument) fits(o *jsondiff.Operation) bool {
	cut := strings.LastIndexByte(o.Path, '/')
	if cut < 0 {
		return false
	}
	parent, key := o.Path[:cut], unescapePointer.Replace(o.Path[cut+1:])
	at := &s.root
	for end := range len(o.Path) {
		if o.Path[end] != '/' {
			continue
		}
		list := o.Path[:end]
		if did, moved := s.lists[list]; moved && (list != parent || did != o.Op) {
			return false
		}
		if end == 0 { // before the first slash there is nothing
			continue
		}
		segment := list[strings.LastIndexByte(list, '/')+1:]
		if at = at.child(unescapePointer.Replace(segment)); at == nil {
			return false
		}
	}
	plain := len(o.Value) > 0 && o.Value[0] != '{' && o.Value[0] != '['
	switch at.kind() {
	case '{':
		if o.Op == "add" {
			return true
		}
		there := at.child(key)
		switch {
		case o.Op == "remove":
			return there != nil
		case there == nil:
			o.Op = "add"
			return true
		}
		return plain || there.kind() == 'n' // null
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

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
