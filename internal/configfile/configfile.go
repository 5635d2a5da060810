// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package configfile reads configuration that people write: one document, in YAML or JSON, decoded
// strictly, whose errors are in the words of who wrote it.
package configfile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/nearest"
)

// Meta is what a document says that it is.
type Meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Document is the one document there must be, in JSON; null if there is none. Documents of nothing
// but comments don't count. A second one is an error: the YAML parser would stop before it, and
// what it says would be without effect.
func Document(config io.Reader) ([]byte, error) {
	document := []byte("null")
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(config)); ; {
		data, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return document, nil
		}
		if err != nil {
			return nil, err
		}
		next, err := yaml.YAMLToJSONStrict(data)
		if err != nil {
			return nil, err
		}
		if string(next) == "null" {
			continue
		}
		if string(document) != "null" {
			return nil, errors.New("more than one YAML document: must be one")
		}
		document = next
	}
}

// Lenient decodes the fields of a document that into has.
func Lenient(document []byte, into any) error {
	return explain(kjson.UnmarshalCaseSensitivePreserveInts(document, into))
}

// Strict decodes a document. A field that is repeated, or that into doesn't have, is an error.
func Strict(document []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(document, into)
	if err != nil {
		return explain(err)
	}
	for i, err := range strict {
		if meant := suggestion(err, into); meant != "" {
			strict[i] = fmt.Errorf("%w%s", err, meant)
		}
	}
	return utilerrors.NewAggregate(strict)
}

// suggestion returns the end of a message about an unknown field: the field of into's type that is near.
func suggestion(err error, into any) string {
	var unknown kjson.FieldError
	if !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(), "unknown field ") {
		return ""
	}
	path := unknown.FieldPath()
	last := path[strings.LastIndex(path, ".")+1:]
	return nearest.Meant(last, fields(reflect.TypeOf(into), map[reflect.Type]bool{}))
}

// fields are the names that documents of a type may have anywhere.
func fields(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
		names = append(names, fields(field.Type, seen)...)
	}
	return names
}

// explain says of what type something must be in the words of who wrote it.
func explain(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	if mismatch.Field == "" {
		return fmt.Errorf("is of type %s, must be an object", mismatch.Value)
	}
	must := "an object"
	switch mismatch.Type.Kind() {
	case reflect.String:
		must = "a string"
	case reflect.Bool:
		must = "true or false"
	case reflect.Slice, reflect.Array:
		must = "a list"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		must = "a whole number"
	case reflect.Float32, reflect.Float64:
		must = "a number"
	}
	return fmt.Errorf("%s: is of type %s, must be %s", mismatch.Field, mismatch.Value, must)
}
