// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quantity refuses quantities that take too long to parse, before they are parsed.
//
// Parsing, comparing or writing a resource.Quantity takes time that grows with the square of its
// number of digits: 20 s for a million of them. An exponent stands for as many digits, so that a
// comparison with 1e99999999 never ends. A text that is TooLong gets resource.ErrFormatWrong
// instead, as "abc" does.
//
// A program that decodes documents of others wraps its decoder, or its codecs:
//
//	decoder := quantity.Decoder(codecs.UniversalDeserializer())   // JSON, YAML and protobuf
//	info.NegotiatedSerializer = quantity.Serializer(codecs)       // all that a server is sent
//
// A program that makes a typed object from another form first calls Check, CheckJSON or CheckPatch.
// A program that parses a single text first calls TooLong. Texts that are no quantities, such as
// those of a ConfigMap, may be of any length.
package quantity

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxLength is the length of the longest quantity.
	maxLength = 1024
	// maxExponent is the largest exponent of ten, with either sign.
	maxExponent = 1024
	// minLength is the length of the shortest text that is TooLong: 1e1025.
	minLength = 6
)

// TooLong reports whether a text is written as a quantity is, and has more than 1,024 characters or
// an exponent that stands for more than 1,024 digits.
func TooLong(text string) bool {
	if len(text) < minLength || !canBegin(text[0]) {
		return false
	}
	text = strings.TrimSpace(text)
	rest := strings.TrimLeft(strings.TrimLeft(text, "+-"), ".0123456789")
	if len(rest) > 1 && (rest[0] == 'e' || rest[0] == 'E') {
		exponent, err := strconv.ParseInt(rest[1:], 10, 64)
		if err == nil && (exponent > maxExponent || exponent < -maxExponent) {
			return true
		}
	}
	return len(text) > maxLength && strings.Trim(rest, "eEinumkKMGTP+-0123456789") == ""
}

// canBegin reports whether a text that begins with c can be a quantity, with space before it.
func canBegin(c byte) bool {
	return c <= ' ' || c >= 0x80 || c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'
}

// Check returns resource.ErrFormatWrong if the object has a quantity for which the document has a
// text that is TooLong. The document has the form that encoding/json decodes to. object is a
// pointer to an empty object of the document's kind, to which Check writes.
func Check(document, object any) error {
	copied, found := markContent(document)
	if !found {
		return nil
	}
	encoded, err := json.Marshal(copied)
	if err != nil {
		return err
	}
	return decodes(encoded, object)
}

// CheckJSON does the same as Check for a document in JSON that is decoded into a typed object.
func CheckJSON(document []byte, object any) error {
	if marked := markJSON(document); marked != nil {
		return decodes(marked, object)
	}
	return nil
}

// CheckPatch does the same as Check for a strategic merge patch or an apply patch, in JSON or YAML.
// Directives are not part of the object.
func CheckPatch(patch []byte, object any) error {
	// An escape can stand for any character, and YAML has many ways to write a text.
	if json.Valid(patch) && !bytes.Contains(patch, []byte{'\\'}) && markJSON(patch) == nil {
		return nil
	}
	encoded := patch
	if !json.Valid(patch) {
		var err error
		if encoded, err = yaml.YAMLToJSON(patch); err != nil {
			return nil // the code that applies the patch reports it
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	var content any
	if err := decoder.Decode(&content); err != nil {
		return nil // impossible: it is valid
	}
	return Check(content, object)
}

// decodes returns resource.ErrFormatWrong if the document can't be decoded because of a quantity.
// It ignores other errors: the code that makes an object of the document reports them.
func decodes(document []byte, object any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, object); isWrong(err) {
		return resource.ErrFormatWrong
	}
	return nil
}

func isWrong(err error) bool {
	return err != nil && strings.Contains(err.Error(), resource.ErrFormatWrong.Error())
}
