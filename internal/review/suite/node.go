package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
)

// maxNodes bounds what a document comes to once its aliases are written out.
const maxNodes = 100_000

// A decoder reads one document, and collects what is wrong with it.
type decoder struct {
	file  string
	errs  []error
	nodes int
}

// errTooLarge ends a document that aliases blow up.
var errTooLarge = fmt.Errorf("aliases make more than %d nodes of it", maxNodes)

// wrong notes what is wrong at a node.
func (d *decoder) wrong(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, &input.Error{Source: input.Source{File: d.file, Line: n.Line},
		Err: fmt.Errorf(format, args...)})
}

// resolve is what an alias stands for.
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

// members are those of a mapping, those that it merges included. A key that is there twice is
// wrong.
func (d *decoder) members(n *yaml.Node) []member {
	n = d.resolve(n)
	var own, merged []member
	has := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := d.resolve(n.Content[i]), n.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, d.merged(value)...)
		case key.Kind != yaml.ScalarNode:
			d.wrong(key, "a key must be a text")
		case has[key.Value]:
			d.wrong(key, "key %q is already there", key.Value)
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

// merged are the members of what << names: a mapping, or several.
func (d *decoder) merged(n *yaml.Node) []member {
	switch n = d.resolve(n); n.Kind {
	case yaml.MappingNode:
		return d.members(n)
	case yaml.SequenceNode:
		var all []member
		for _, part := range n.Content {
			all = append(all, d.merged(part)...)
		}
		return all
	}
	d.wrong(n, "what is merged must be a mapping")
	return nil
}

// fields calls the function of each field of a mapping. A field that has none is wrong.
func (d *decoder) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node)) {
	if n = d.resolve(n); n.Kind != yaml.MappingNode {
		d.wrong(n, "%s: it is %s, and must be a mapping", orDocument(path), described(n))
		return
	}
	for _, m := range d.members(n) {
		if read := known[m.key.Value]; read != nil {
			read(m.value)
			continue
		}
		var names []string
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		meant := nearest.Meant(m.key.Value, names)
		if meant == "" {
			meant = ": it is one of " + strings.Join(names, ", ")
		}
		d.wrong(m.key, "unknown field %q%s", strings.TrimPrefix(path+"."+m.key.Value, "."), meant)
	}
}

func orDocument(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

// described is what a node is, in words.
func described(n *yaml.Node) string {
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

// text reads a text into out: what stands there, be it a number or a word that means true.
func (d *decoder) text(path string, out *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		n = d.resolve(n)
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			d.wrong(n, "%s: it is %s, and must be a text", path, described(n))
			return
		}
		*out = n.Value
	}
}

// texts reads a list of strings, which isn't nil.
func (d *decoder) texts(path string, out *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*out = []string{}
		d.list(n, path, func(item *yaml.Node, path string) {
			var s string
			d.text(path, &s)(item)
			*out = append(*out, s)
		})
	}
}

// number reads a count.
func (d *decoder) number(path string, out **int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		n = d.resolve(n)
		value, ok := d.value(n).(int64)
		if !ok || value < 0 || value > 1<<31 {
			d.wrong(n, "%s: it is %s, and must be a number, 0 or more", path, described(n))
			return
		}
		count := int(value)
		*out = &count
	}
}

// list calls a function for each item.
func (d *decoder) list(n *yaml.Node, path string, read func(item *yaml.Node, path string)) {
	if n = d.resolve(n); n.Kind != yaml.SequenceNode {
		d.wrong(n, "%s: it is %s, and must be a list", path, described(n))
		return
	}
	for i, item := range n.Content {
		read(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

// mapping is a node's value, which must be a mapping; nil where it isn't.
func (d *decoder) mapping(n *yaml.Node, path string) map[string]any {
	value, ok := d.value(n).(map[string]any)
	if !ok {
		d.wrong(n, "%s: it is %s, and must be a mapping", path, described(d.resolve(n)))
	}
	return value
}

// value is what a node means as JSON, scalars as Kubernetes reads them.
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
		d.wrong(n, "%v", err)
	}
	return value
}

// quoted are the styles of scalars that are texts whatever they say.
const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// scalar is what a scalar means. What it is the older parser says, which kubectl has: to it yes is
// true.
func scalar(n *yaml.Node) (any, error) {
	if n.Style&quoted != 0 || n.Tag == "!!str" && n.Style&yaml.TaggedStyle != 0 {
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

// caught makes an error of what a decoder panics with.
func caught(errs *[]error, source input.Source) {
	switch r := recover(); {
	case r == nil:
	case r == any(errTooLarge):
		*errs = append(*errs, &input.Error{Source: source, Err: errTooLarge})
	default:
		panic(r)
	}
}

// syntax is an error of the parser, with its line.
func syntax(file string, err error) error {
	return fmt.Errorf("%s: %w", file, errors.New(strings.TrimPrefix(err.Error(), "yaml: ")))
}
