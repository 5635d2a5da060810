// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// unmarshal decodes a document. Numbers stay as they are written.
func unmarshal(data []byte, document *any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(document)
}

// diff returns the operations that make the changes between original and changed in sent. original is
// sent after decoding into a Go type and encoding: without fields that the type doesn't have, and with
// empty values that the type always writes. So diff doesn't remove values that were not sent, and adds
// a value that was not sent with all that is in it.
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
			operations = append(operations, jsondiff.Operation{Op: "remove", Path: join(path, key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		old, known := original[key]
		part, wasSent := sent[key]
		switch {
		case known && wasSent:
			operations = append(operations, diff(join(path, key), part, old, changed[key])...)
		case !known || !reflect.DeepEqual(old, changed[key]):
			operations = append(operations, withValue("add", join(path, key), changed[key]))
		}
	}
	return operations
}

// diffArrays skips the equal elements at the beginning and at the end of both arrays, which are all
// but one if one was inserted or removed. It compares those between pair by pair.
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
		element := join(path, strconv.Itoa(i))
		if reflect.DeepEqual(nameOf(original[i]), nameOf(changed[i])) {
			operations = append(operations, diff(element, sent[i], original[i], changed[i])...)
		} else {
			// Another element: it must not get the fields of the old one that the type doesn't have.
			operations = append(operations, withValue("replace", element, changed[i]))
		}
	}
	// From the end, since a removal moves the elements after it.
	for i := len(original) - tail - 1; i >= paired; i-- {
		operations = append(operations, jsondiff.Operation{Op: "remove", Path: join(path, strconv.Itoa(i))})
	}
	for i := paired; i < len(changed)-tail; i++ {
		operations = append(operations, withValue("add", join(path, strconv.Itoa(i)), changed[i]))
	}
	return operations
}

// nameOf returns the field that distinguishes the elements of most lists of the API.
func nameOf(element any) any {
	fields, _ := element.(map[string]any)
	return fields["name"]
}

func withValue(op, path string, value any) jsondiff.Operation {
	data, _ := json.Marshal(value) // it was JSON before
	return jsondiff.Operation{Op: op, Path: path, Value: data}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func join(path, key string) string { return path + "/" + escapePointer.Replace(key) }
