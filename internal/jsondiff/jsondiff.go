// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsondiff compares two states of an object, and returns the JSON patch (RFC 6902) that
// turns the first into the second.
//
// It walks over the Go values, typed or not, and encodes only what differs. The result is the same as
// for their JSON: a field has the name in its tag, an empty field with omitempty doesn't exist, and a
// type that encodes itself, such as a quantity, is compared by its JSON.
//
// An element of a list is identified by the list's merge key if the API defines one (patchMergeKey),
// by its field "name" if it has no type, and else by its value. So a container that was inserted
// before others is one addition.
package jsondiff

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Operation is one operation of a JSON patch.
type Operation struct {
	// Op is add, remove or replace.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// Value is the value that is added or that replaces another one. It is nil for a removal.
	Value json.RawMessage `json:"value,omitempty"`
}

const (
	add     = "add"
	remove  = "remove"
	replace = "replace"
)

// Compare returns the operations that turn before into after, none if they are equal. Both must be
// pointers to the same type, or the same kind of map. Compare returns an error if a value can't be
// encoded.
func Compare(before, after any) ([]Operation, error) {
	was, now := reflect.ValueOf(before), reflect.ValueOf(after)
	if !was.IsValid() || !now.IsValid() {
		return nil, nil
	}
	w := walk{}
	w.values(was, now, "")
	if w.err != nil {
		return nil, w.err
	}
	return w.operations, nil
}

// walk is one comparison.
type walk struct {
	path       []byte // the pointer to what is being compared
	operations []Operation
	err        error
	// equalOnly reports whether the walk ends at the first difference, and collects no operations.
	// differs reports whether there is a difference.
	equalOnly, differs bool
}

// equal reports whether two values are equal.
func (w *walk) equal(before, after reflect.Value) bool {
	inner := walk{equalOnly: true}
	inner.values(before, after, "")
	if inner.err != nil && w.err == nil {
		w.err = inner.err
	}
	return !inner.differs
}

// done reports whether the walk can end.
func (w *walk) done() bool { return w.err != nil || w.equalOnly && w.differs }

// emit adds an operation at the path. A removal has no value.
func (w *walk) emit(op string, value reflect.Value) {
	w.differs = true
	if w.equalOnly || w.err != nil {
		return
	}
	o := Operation{Op: op, Path: string(w.path)}
	if op != remove {
		if o.Value, w.err = encode(value); w.err != nil {
			return
		}
	}
	w.operations = append(w.operations, o)
}

// encode returns the JSON of a value as encoding/json writes it within its object.
func encode(value reflect.Value) ([]byte, error) {
	if value.CanAddr() {
		return json.Marshal(value.Addr().Interface())
	}
	return json.Marshal(value.Interface())
}

// values compares two values. If they are lists, key is their merge key.
func (w *walk) values(before, after reflect.Value, key string) {
	if w.done() {
		return
	}
	if before.Type() != after.Type() {
		w.emit(replace, after)
		return
	}
	if encodesItself(before.Type()) {
		w.encoded(before, after)
		return
	}
	switch before.Kind() {
	case reflect.Pointer, reflect.Interface:
		switch {
		case before.IsNil() && after.IsNil():
		case before.IsNil() || after.IsNil():
			w.emit(replace, after)
		case before.Kind() == reflect.Pointer && before.Pointer() == after.Pointer():
		default:
			w.values(before.Elem(), after.Elem(), key)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(before.Type()) {
			w.field(f, before.Field(f.index), after.Field(f.index))
		}
	case reflect.Map:
		w.maps(before, after)
	case reflect.Slice:
		switch {
		case before.IsNil() != after.IsNil():
			w.emit(replace, after)
		case before.Type().Elem().Kind() == reflect.Uint8:
			if string(before.Bytes()) != string(after.Bytes()) {
				w.emit(replace, after)
			}
		default:
			w.lists(before, after, key)
		}
	case reflect.Array, reflect.Func:
		w.encoded(before, after)
	default:
		if !before.Equal(after) {
			w.emit(replace, after)
		}
	}
}

// encoded compares values by their JSON.
func (w *walk) encoded(before, after reflect.Value) {
	if reflect.DeepEqual(before.Interface(), after.Interface()) {
		return
	}
	was, err := encode(before)
	if err != nil {
		w.err = err
		return
	}
	now, err := encode(after)
	if err != nil {
		w.err = err
		return
	}
	if string(was) != string(now) {
		w.emit(replace, after)
	}
}

func (w *walk) field(f field, was, now reflect.Value) {
	if w.done() {
		return
	}
	if f.inline {
		w.values(was, now, "")
		return
	}
	had, has := f.isPresent(was), f.isPresent(now)
	if !had && !has {
		return
	}
	outside := w.enter(f.name)
	switch {
	case !had:
		w.emit(add, now)
	case !has:
		w.emit(remove, reflect.Value{})
	default:
		w.values(was, now, f.mergeKey)
	}
	w.path = w.path[:outside]
}

func (w *walk) maps(before, after reflect.Value) {
	if before.IsNil() != after.IsNil() {
		w.emit(replace, after)
		return
	}
	if before.Type().Key().Kind() != reflect.String {
		w.encoded(before, after)
		return
	}
	switch was := before.Interface().(type) { // most are alike
	case map[string]string:
		if maps.Equal(was, after.Interface().(map[string]string)) {
			return
		}
	case corev1.ResourceList:
		if maps.Equal(was, after.Interface().(corev1.ResourceList)) {
			return
		}
	}
	keys := before.MapKeys()
	for _, key := range after.MapKeys() {
		if !before.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, key := range keys {
		was, now := before.MapIndex(key), after.MapIndex(key)
		outside := w.enter(key.String())
		switch {
		case !was.IsValid():
			w.emit(add, now)
		case !now.IsValid():
			w.emit(remove, reflect.Value{})
		default:
			w.values(was, now, "")
		}
		w.path = w.path[:outside]
		if w.done() {
			return
		}
	}
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// enter appends a field's name to the path. It returns the length to which the caller cuts the path
// afterwards.
func (w *walk) enter(name string) (outside int) {
	outside = len(w.path)
	w.path = append(append(w.path, '/'), escaper.Replace(name)...)
	return outside
}

// enterElement is enter for an element of a list.
func (w *walk) enterElement(index int) (outside int) {
	outside = len(w.path)
	w.path = strconv.AppendInt(append(w.path, '/'), int64(index), 10)
	return outside
}
