package chain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"gatehouse.dev/internal/jsondiff"
)

// Changes holds what a plugin changed in an object: the object before and after the plugin's call.
// It shares no memory with the object, so it may be read when the object has gone on, and by
// several goroutines. A nil Changes holds nothing.
type Changes struct {
	size int // of both states

	once          sync.Once
	before, after *state // until they are compared
	patch         []jsondiff.Operation
	err           error
}

// Size returns how many bytes of memory the changes hold until Patch is called.
func (c *Changes) Size() int {
	if c == nil {
		return 0
	}
	return c.size
}

// Patch returns the changes as a JSON patch. It may be empty: a quantity that is written another
// way is the same. The caller must not change the patch.
func (c *Changes) Patch() ([]jsondiff.Operation, error) {
	if c == nil {
		return nil, nil
	}
	c.once.Do(func() {
		c.patch, c.err = compare(c.before, c.after)
		c.before, c.after = nil, nil
	})
	return c.patch, c.err
}

// compare compares two states of an object. It runs behind the request, so a type that panics when
// it is encoded is an error.
func compare(before, after *state) (patch []jsondiff.Operation, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			patch, err = nil, fmt.Errorf("comparing two states of an object: %v", cause)
		}
	}()
	if before.kind != after.kind {
		return nil, fmt.Errorf("comparing two states of an object: it was a %v and is a %v", before.kind, after.kind)
	}
	was, err := before.decode()
	if err != nil {
		return nil, err
	}
	now, err := after.decode()
	if err != nil {
		return nil, err
	}
	return jsondiff.Of(was, now)
}

// state is an object as it was at a moment: its encoding, in protobuf if its type has that and else
// in JSON. Both encodings of equal objects are equal, and a pod's takes a third of the time of a
// copy and a comparison of copies.
type state struct {
	kind   reflect.Type
	binary bool
	data   []byte
	err    error

	once       sync.Once
	decoded    any // once it is asked for: what is after one plugin is before the next
	unreadable error
}

// protobuf is implemented by the types of Kubernetes' API.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// stateOf returns the object's state.
func stateOf(object runtime.Object) *state {
	s := &state{kind: reflect.TypeOf(object)}
	switch object := object.(type) {
	case protobuf:
		s.binary = true
		s.data, s.err = object.Marshal()
	case runtime.Unstructured:
		s.kind = reflect.TypeFor[map[string]any]()
		s.data, s.err = json.Marshal(object.UnstructuredContent())
	default:
		s.data, s.err = json.Marshal(object)
	}
	return s
}

// changedTo returns what has changed in the object since, nil if nothing has.
func (s *state) changedTo(now *state) *Changes {
	if s.err == nil && now.err == nil && s.kind == now.kind && bytes.Equal(s.data, now.data) {
		return nil
	}
	return &Changes{before: s, after: now, size: len(s.data) + len(now.data)}
}

// decode returns an object that is what the state's object was, which nobody may change.
func (s *state) decode() (any, error) {
	s.once.Do(func() {
		if s.unreadable = s.err; s.err == nil {
			s.decoded, s.unreadable = s.object()
		}
	})
	if s.unreadable != nil {
		return nil, fmt.Errorf("comparing a %v: %w", s.kind, s.unreadable)
	}
	return s.decoded, nil
}

func (s *state) object() (any, error) {
	if s.kind.Kind() == reflect.Map {
		var content map[string]any
		err := utiljson.Unmarshal(s.data, &content)
		return content, err
	}
	object := reflect.New(s.kind.Elem()).Interface()
	if s.binary {
		return object, object.(protobuf).Unmarshal(s.data)
	}
	return object, json.Unmarshal(s.data, object)
}
