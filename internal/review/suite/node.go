// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
)

// maxNodes bounds the nodes of a document with all aliases expanded.
const maxNodes = 100_000

// A decoder reads one document, and collects its errors.
type decoder struct {
	file  string
	errs  []*input.Error
	nodes int
}

// errTooLarge is the error of a document that has too many nodes with its aliases expanded.
var errTooLarge = fmt.Errorf("aliases make more than %d nodes of it", maxNodes)

// addError adds an error at the line of a node.
func (d *decoder) addError(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, &input.Error{Source: input.Source{File: d.file, Line: n.Line},
		Err: input.Shorten(fmt.Errorf(format, args...))})
}

// resolve returns the node that an alias stands for.
func (d *decoder) resolve(n *yaml.Node) *yaml.Node {
	if d.nodes++; d.nodes > maxNodes {
		panic(errTooLarge)
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// A member is a key of a mapping with its value.
type member struct {
	key, value *yaml.Node
}

// members returns the members of a mapping, including merged ones. A duplicate key is an error.
func (d *decoder) members(n *yaml.Node) []member {
	n = d.resolve(n)
	var own, merged []member
	has := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := d.resolve(n.Content[i]), n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, d.mergedMembers(value)...)
		case key.Kind != yaml.ScalarNode:
			d.addError(key, "a key must be a text")
		case has[key.Value]:
			d.addError(key, "key %q is already there", key.Value)
		default:
			has[key.Value] = true
			own = append(own, member{key, value})
		}
	}
	for _, m := range merged {
		if !has[m.key.Value] {
			has[m.key.Value] = true
			own = append(own, m)
		}
	}
	return own
}

// mergedMembers returns the members of the mapping, or the mappings, that << names.
func (d *decoder) mergedMembers(n *yaml.Node) []member {
	switch n = d.resolve(n); n.Kind {
	case yaml.MappingNode:
		return d.members(n)
	case yaml.SequenceNode:
		var all []member
		for _, part := range n.Content {
			all = append(all, d.mergedMembers(part)...)
		}
		return all
	}
	d.addError(n, "<<: it is %s, and must be a mapping or a list of mappings", describe(n))
	return nil
}

// check adds errors if a node can't be decoded into a type: for fields that the type doesn't have,
// and for values of another kind. Any node can be decoded into a yaml.Node.
func (d *decoder) check(n *yaml.Node, t reflect.Type, path string) {
	n = d.resolve(n)
	switch t {
	case reflect.TypeFor[yaml.Node]():
		return
	case reflect.TypeFor[*int]():
		if count, ok := d.value(n).(int64); !ok || count < 0 || count > 1<<31 {
			d.addError(n, "%s: it is %s, and must be a number, 0 or more", path, describe(n))
		}
		return
	}
	if t.Kind() == reflect.Pointer && t != reflect.TypeFor[*regexp.Regexp]() {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Struct && n.Kind != yaml.MappingNode:
		d.addError(n, "%s: it is %s, and must be a mapping", cmp.Or(path, "the document"), describe(n))
	case t.Kind() == reflect.Struct:
		known := fieldsOf(t)
		for _, m := range d.members(n) {
			below := strings.TrimPrefix(path+"."+m.key.Value, ".")
			if field, ok := known[m.key.Value]; ok {
				d.check(m.value, field, below)
			} else {
				d.addUnknown(m.key, fmt.Sprintf("unknown field %q", below), m.key.Value, slices.Sorted(maps.Keys(known)))
			}
		}
	case t.Kind() == reflect.Slice && n.Kind != yaml.SequenceNode:
		d.addError(n, "%s: it is %s, and must be a list", path, describe(n))
	case t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			d.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		d.addError(n, "%s: it is %s, and must be a text", path, describe(n))
	case t.Kind() == reflect.Pointer:
		if _, err := regexp.Compile(n.Value); err != nil {
			d.addError(n, "%s: %v", path, err)
		}
	}
}

// fieldsOf returns the types of a struct's fields, by their names in YAML.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name != "-" && field.IsExported() && !field.Anonymous {
			all[cmp.Or(name, strings.ToLower(field.Name))] = field.Type
		}
	}
	return all
}

// decode decodes a node into a struct. Fields of the struct that the node doesn't have stay.
func (d *decoder) decode(n *yaml.Node, into any, path string) {
	before := len(d.errs)
	d.check(n, reflect.TypeOf(into).Elem(), path)
	if err := d.resolve(n).Decode(into); err != nil && len(d.errs) == before {
		d.addError(n, "%s: %w", cmp.Or(path, "the document"), err)
	}
}

// addUnknown adds an error about an unknown word, with the one that was likely meant.
func (d *decoder) addUnknown(n *yaml.Node, message, word string, all []string) {
	d.addError(n, "%s%s", message, cmp.Or(nearest.Meant(word, all), ": it is one of "+strings.Join(all, ", ")))
}

// fieldNode returns the node of a field in a mapping, or the mapping itself if it merges the field.
func fieldNode(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return n
}

// describe describes a node in words.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	return fmt.Sprintf("%q", n.Value)
}

// mapping returns a node's value if it is a mapping. Otherwise it adds an error and returns nil.
func (d *decoder) mapping(n *yaml.Node, path string) map[string]any {
	value, ok := d.value(n).(map[string]any)
	if !ok {
		d.addError(n, "%s: it is %s, and must be a mapping", path, describe(d.resolve(n)))
	}
	return value
}

// value returns the JSON value of a node, with scalars as Kubernetes reads them.
func (d *decoder) value(n *yaml.Node) any {
	switch n = d.resolve(n); n.Kind {
	case yaml.MappingNode:
		value := map[string]any{}
		for _, m := range d.members(n) {
			value[m.key.Value] = d.value(m.value)
		}
		return value
	case yaml.SequenceNode:
		value := []any{}
		for _, item := range n.Content {
			value = append(value, d.value(item))
		}
		return value
	}
	value, err := scalar(n)
	if err != nil {
		d.addError(n, "%v", err)
	}
	return value
}

// quotedStyles are the styles of scalars that are always texts.
const quotedStyles = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// scalar returns the value of a scalar. It follows the older parser, which kubectl uses: there "yes"
// means true.
func scalar(n *yaml.Node) (any, error) {
	if n.Style&quotedStyles != 0 || n.Tag == "!!str" && n.Style&yaml.TaggedStyle != 0 {
		return n.Value, nil
	}
	encoded, err := sigsyaml.YAMLToJSON([]byte(n.Value))
	if err != nil {
		return n.Value, nil // a text that isn't YAML by itself
	}
	var value any
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	switch value.(type) {
	case map[string]any, []any:
		return n.Value, nil
	}
	return value, nil
}

// recoverTooLarge recovers from the panic with which a decoder ends a document that is too large, and
// adds an error.
func recoverTooLarge(errs *[]error, source input.Source) {
	switch r := recover(); {
	case r == nil:
	case r == any(errTooLarge):
		*errs = append(*errs, &input.Error{Source: source, Err: errTooLarge})
	default:
		panic(r)
	}
}

// syntaxError returns an error of the parser with its line, which begins the parser's text.
func syntaxError(file string, err error) error {
	text, source := strings.TrimPrefix(err.Error(), "yaml: "), input.Source{File: file}
	if at, after, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok {
		if line, err := strconv.Atoi(at); err == nil {
			text, source.Line = after, line
		}
	}
	return &input.Error{Source: source, Err: errors.New(text)}
}
