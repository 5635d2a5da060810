package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gatehouse.dev/internal/jsondiff"
)

// unmarshal reads a document with its numbers as they are written.
func unmarshal(data []byte, document *any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(document)
}

// diff returns the operations that do to sent what was done from original to changed. These two are
// sent, or a part of it, as a Go type sees it: without what the type has no fields for, and with
// the empty values that it always writes. So nothing is removed that was not sent, and what belongs
// below something that was not sent is added together with it.
//
// All three are documents as unmarshal reads them, or parts of them at the same path, a JSON
// pointer (RFC 6901).
func diff(path string, sent, original, changed any) []jsondiff.Operation {
	if reflect.DeepEqual(original, changed) {
		return nil
	}
	switch changed := changed.(type) {
	case map[string]any:
		original, known := original.(map[string]any)
		sent, same := sent.(map[string]any)
		if known && same {
			return diffObjects(path, sent, original, changed)
		}
	case []any:
		original, known := original.([]any)
		sent, same := sent.([]any)
		if known && same && len(sent) == len(original) {
			return diffArrays(path, sent, original, changed)
		}
	}
	return []jsondiff.Operation{withValue("replace", path, changed)}
}

func diffObjects(path string, sent, original, changed map[string]any) []jsondiff.Operation {
	var operations []jsondiff.Operation
	for _, key := range slices.Sorted(maps.Keys(original)) {
		_, wasSent := sent[key]
		if _, stays := changed[key]; wasSent && !stays {
			operations = append(operations, jsondiff.Operation{Op: "remove", Path: below(path, key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		before, known := original[key]
		part, wasSent := sent[key]
		switch {
		case known && wasSent:
			operations = append(operations, diff(below(path, key), part, before, changed[key])...)
		case !known || !reflect.DeepEqual(before, changed[key]):
			operations = append(operations, withValue("add", below(path, key), changed[key]))
		}
	}
	return operations
}

// diffArrays leaves those elements alone that are the same counted from the beginning or from the
// end: all but one, where one was put in or taken out. Those between are compared pair by pair.
func diffArrays(path string, sent, original, changed []any) []jsondiff.Operation {
	shorter := min(len(original), len(changed))
	first := 0
	for first < shorter && reflect.DeepEqual(original[first], changed[first]) {
		first++
	}
	tail := 0
	for tail < shorter-first && reflect.DeepEqual(original[len(original)-1-tail], changed[len(changed)-1-tail]) {
		tail++
	}
	paired := shorter - tail

	var operations []jsondiff.Operation
	for i := first; i < paired; i++ {
		at := below(path, strconv.Itoa(i))
		if reflect.DeepEqual(name(original[i]), name(changed[i])) {
			operations = append(operations, diff(at, sent[i], original[i], changed[i])...)
		} else {
			// Another element: what the type doesn't know of the one must not become the other's.
			operations = append(operations, withValue("replace", at, changed[i]))
		}
	}
	// from the end: a removal moves what is behind it
	for i := len(original) - tail - 1; i >= paired; i-- {
		operations = append(operations, jsondiff.Operation{Op: "remove", Path: below(path, strconv.Itoa(i))})
	}
	for i := paired; i < len(changed)-tail; i++ {
		operations = append(operations, withValue("add", below(path, strconv.Itoa(i)), changed[i]))
	}
	return operations
}

// name is what most lists of the API tell their elements apart by.
func name(element any) any {
	fields, _ := element.(map[string]any)
	return fields["name"]
}

func withValue(op, path string, value any) jsondiff.Operation {
	data, _ := json.Marshal(value) // it was JSON before
	return jsondiff.Operation{Op: op, Path: path, Value: data}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func below(path, key string) string { return path + "/" + escapePointer.Replace(key) }
