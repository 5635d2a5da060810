// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"bytes"
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// A mark changes a text of a document that is TooLong into one that is no quantity. If one of these
// texts stands for a quantity of the document's kind, the marked document can't be decoded. If it
// is any other text, a mark makes no difference.

// marked is the first character of a marked text. It isn't part of any quantity, and is part of
// base64.
const marked = 'x'

// markAny returns a copy of a document in JSON, YAML or protobuf with marks, nil if there is
// nothing to mark.
func markAny(document []byte) []byte {
	switch {
	case IsProtobuf(document):
		return markProtobuf(document)
	case json.Valid(document):
		return markJSON(document)
	}
	return markYAML(document)
}

// markJSON returns a copy of a document in JSON with marks, nil if there is nothing to mark. It
// leaves texts with escapes alone: they can't be quantities.
func markJSON(document []byte) []byte {
	var copied []byte
	eachScalar(document, func(begin, end int) {
		text := document[begin:end]
		if text[0] == '"' {
			text = text[1 : len(text)-1]
		}
		if !TooLong(string(text)) {
			return
		}
		if copied == nil {
			copied = bytes.Clone(document)
		}
		// A number becomes a string of the same length.
		copied[begin], copied[begin+1], copied[end-1] = '"', marked, '"'
	})
	return copied
}

// eachScalar calls found with the position of each string and number that may be TooLong, quotes
// included.
func eachScalar(document []byte, found func(begin, end int)) {
	for i := 0; i < len(document); {
		begin := i
		switch c := document[i]; {
		case c == '"':
			if i = endOfString(document, i+1); i < 0 {
				return
			}
			if i-begin >= minLength+2 && canBegin(document[begin+1]) {
				found(begin, i)
			}
		case isNumeric(c):
			for i < len(document) && isNumeric(document[i]) {
				i++
			}
			if i-begin >= minLength {
				found(begin, i)
			}
		default:
			i++
		}
	}
}

// endOfString returns the index after the string that begins before i, less than 0 if the string
// doesn't end.
func endOfString(document []byte, i int) int {
	for {
		n := bytes.IndexByte(document[i:], '"')
		if n < 0 {
			return -1
		}
		end := i + n
		escapes := 0
		for end-escapes > i && document[end-escapes-1] == '\\' {
			escapes++
		}
		if i = end + 1; escapes%2 == 0 {
			return i
		}
	}
}

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// markYAML returns a document in YAML as JSON with marks, nil if there is nothing to mark.
func markYAML(document []byte) []byte {
	if len(document) < minLength {
		return nil
	}
	converted, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil // the decoder reports it
	}
	return markJSON(converted)
}

// markCBOR returns a document in CBOR with marks, nil if there is nothing to mark.
func markCBOR(document []byte) []byte {
	var content any
	if err := direct.Unmarshal(document, &content); err != nil {
		return nil // the decoder reports it
	}
	copied, found := markContent(content)
	if !found {
		return nil
	}
	encoded, err := direct.Marshal(copied)
	if err != nil {
		return nil // impossible: it has been decoded from the same
	}
	return encoded
}

// HasLong reports whether a document, in the form that encoding/json decodes to, has a text that is TooLong, whether
// it stands for a quantity or not. Check tells.
func HasLong(content any) bool {
	switch content := content.(type) {
	case string:
		return TooLong(content)
	case []any:
		return slices.ContainsFunc(content, HasLong)
	case map[string]any:
		for _, v := range content {
			if HasLong(v) {
				return true
			}
		}
	}
	return false
}

// markContent returns a copy of a document with marks, and whether it has any. The copy lacks keys
// that begin with $, because these are directives of a strategic merge patch, not fields.
func markContent(content any) (copied any, found bool) {
	switch content := content.(type) {
	case string:
		if TooLong(content) {
			return string(marked), true
		}
	case json.Number:
		if TooLong(string(content)) {
			return string(marked), true
		}
	case []any:
		list := make([]any, len(content))
		for i, v := range content {
			element, foundHere := markContent(v)
			list[i], found = element, found || foundHere
		}
		return list, found
	case map[string]any:
		fields := make(map[string]any, len(content))
		for key, v := range content {
			if key == "" || key[0] != '$' {
				field, foundHere := markContent(v)
				fields[key], found = field, found || foundHere
			}
		}
		return fields, found
	}
	return content, false
}
