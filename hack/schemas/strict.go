// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
)

// keywords are the keywords that the schemas have, each with the type of the values that it is about, empty for all
// types. "number" stands for "integer", too.
var keywords = map[string]string{
	"$id": "", "$schema": "", "$ref": "", "title": "", "description": "", "default": "", "type": "", "enum": "", "const": "",
	"definitions": "", "allOf": "", "anyOf": "", "oneOf": "", "not": "", "if": "", "then": "", "else": "",
	"minLength": "string", "maxLength": "string", "pattern": "string",
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number",
	"items": "array", "minItems": "array", "maxItems": "array", "uniqueItems": "array",
	"properties": "object", "required": "object", "additionalProperties": "object", "propertyNames": "object",
	"minProperties": "object",
}

// strict returns a schema that means the same and passes the strict mode of Ajv, as SchemaStore asks for: a type is
// one type, a keyword has its type beside it, and a required field is among the properties.
// https://ajv.js.org/strict-mode.html
func strict(s schema) (schema, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, err
	}
	return plain, makeStrict(plain)
}

// makeStrict changes a schema and those in it.
func makeStrict(s map[string]any) error {
	if types, ok := s["type"].([]any); ok {
		splitTypes(s, types)
	}
	for keyword := range s {
		of, known := keywords[keyword]
		if !known {
			return fmt.Errorf("unknown keyword %q", keyword)
		}
		if of == "" || s["type"] == "integer" && of == "number" {
			continue
		}
		if s["type"] == nil {
			s["type"] = of
		}
		if s["type"] != of {
			return fmt.Errorf("keyword %q is about a %s, and the type is %v", keyword, of, s["type"])
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if s["properties"] == nil {
			s["properties"] = map[string]any{}
		}
		if properties := s["properties"].(map[string]any); properties[name.(string)] == nil {
			properties[name.(string)] = true
		}
	}
	return eachSchema(s, makeStrict)
}

// splitTypes makes a list of types a list of schemas, each with the keywords about its type.
func splitTypes(s map[string]any, types []any) {
	var schemas []any
	for _, name := range types {
		one := map[string]any{"type": name}
		for keyword, value := range s {
			if of := keywords[keyword]; of == name || of == "number" && name == "integer" {
				one[keyword] = value
			}
		}
		schemas = append(schemas, one)
	}
	for keyword := range s {
		if keywords[keyword] != "" {
			delete(s, keyword)
		}
	}
	delete(s, "type")
	all, _ := s["allOf"].([]any)
	if s["anyOf"] == nil && all == nil {
		s["anyOf"] = schemas
		return
	}
	s["allOf"] = append(all, map[string]any{"anyOf": schemas})
}

// eachSchema calls a function with each schema directly below one.
func eachSchema(s map[string]any, call func(map[string]any) error) error {
	for keyword, value := range s {
		var below []any
		switch keyword {
		case "properties", "definitions":
			for _, one := range value.(map[string]any) {
				below = append(below, one)
			}
		case "allOf", "anyOf", "oneOf":
			below = value.([]any)
		case "items", "additionalProperties", "propertyNames", "not", "if", "then", "else":
			below = []any{value}
		}
		for _, one := range below {
			one, ok := one.(map[string]any)
			if !ok {
				continue // true or false
			}
			if err := call(one); err != nil {
				return fmt.Errorf("%s: %w", keyword, err)
			}
		}
	}
	return nil
}
