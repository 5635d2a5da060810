package jsondiff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Changes holds what a plugin changed in an object: the object before and after the plugin's call.
// It shares no memory with the object, so it may be read when the object has gone on, and by
// several goroutines. A nil Changes holds nothing.
type Changes struct {
	size int // of both states

	once          sync.Once
	before, after *State // until they are compared
	patch         []Operation
	err           error
}

// Between returns what changed from before to after, nil if nothing did. It copies both, so that
// they may change afterwards.
func Between(before, after runtime.Object) *Changes {
	return StateOf(before, nil).ChangedTo(StateOf(after, nil))
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
func (c *Changes) Patch() ([]Operation, error) {
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
func compare(before, after *State) (patch []Operation, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			patch, err = nil, fmt.Errorf("comparing two states of an object: %v", cause)
		}
	}()
	if before.kind != after.kind {
		return nil, fmt.Errorf("comparing two states of an object: it was a %v and is a %v", before.kind, after.kind)
	}
	if err := errors.Join(before.err, after.err); err != nil {
		return nil, fmt.Errorf("comparing two states of a %v: %w", before.kind, err)
	}
	was, now := before.data, after.data
	if before.binary {
		if was, now, err = Differing(before.kind.Elem(), was, now); err != nil {
			return nil, fmt.Errorf("comparing two states of a %v: %w", before.kind, err)
		}
	}
	old, err := before.decode(was)
	if err != nil {
		return nil, err
	}
	object, err := after.decode(now)
	if err != nil {
		return nil, err
	}
	return Of(old, object)
}

// State is an object as it was at a moment: its encoding, in protobuf if its type has that and else
// in JSON. Both encodings of equal objects are equal, and a pod's takes a third of the time of a
// copy and a comparison of copies.
type State struct {
	kind   reflect.Type
	binary bool
	data   []byte
	err    error
}

// protobuf is implemented by the types of Kubernetes' API.
type protobuf interface {
	Size() int
	MarshalToSizedBuffer(buffer []byte) (int, error)
	Unmarshal(data []byte) error
}

// StateOf returns the object's state. It may write it into the spare memory, see State.Memory.
func StateOf(object runtime.Object, spare []byte) *State {
	s := &State{kind: reflect.TypeOf(object)}
	switch object := object.(type) {
	case protobuf:
		s.binary = true
		size := object.Size()
		if cap(spare) < size {
			spare = make([]byte, size)
		}
		// A message is written from its end.
		s.data = spare[:size]
		var n int
		n, s.err = object.MarshalToSizedBuffer(s.data)
		s.data = s.data[size-n:]
	case runtime.Unstructured:
		s.kind = reflect.TypeFor[map[string]any]()
		s.data, s.err = json.Marshal(object.UnstructuredContent())
	default:
		s.data, s.err = json.Marshal(object)
	}
	return s
}

// ChangedTo returns what has changed in the object since, nil if nothing has.
func (s *State) ChangedTo(now *State) *Changes {
	if s.err == nil && now.err == nil && s.kind == now.kind && bytes.Equal(s.data, now.data) {
		return nil
	}
	return &Changes{before: s, after: now, size: len(s.data) + len(now.data)}
}

// decode returns the object of a state's type that data is the encoding of.
func (s *State) decode(data []byte) (object any, err error) {
	switch {
	case s.kind.Kind() == reflect.Map:
		var content map[string]any
		err = utiljson.Unmarshal(data, &content)
		object = content
	case s.binary:
		object = reflect.New(s.kind.Elem()).Interface()
		err = object.(protobuf).Unmarshal(data)
	default:
		object = reflect.New(s.kind.Elem()).Interface()
		err = json.Unmarshal(data, object)
	}
	if err != nil {
		return nil, fmt.Errorf("comparing two states of a %v: %w", s.kind, err)
	}
	return object, nil
}

// Memory returns the state's memory, which StateOf can use again once the state is not needed.
func (s *State) Memory() []byte { return s.data }
