// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/yamltext"
)

// patchText applies a patch to the text of an object in a file. Everything else stays as it is written, comments
// among it. It returns an error if the result isn't exactly the patched object.
func patchText(file, text string, d input.Document, patch []v1alpha1.PatchOperation) (string, error) {
	want, err := patchObject(d, patch)
	if err != nil {
		return "", err
	}
	for i := range patch {
		root := objectsIn([]byte(text))[d.Source.Line]
		if root == nil {
			return "", errors.New("its place in the file isn't known")
		}
		if text, err = edit(text, root, &patch[i]); err != nil {
			return "", err
		}
	}
	documents, errs := parseText(file, []byte(text))
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	for _, got := range documents {
		if got.Source.Line == d.Source.Line && equality.Semantic.DeepEqual(got.Object.Object, want) {
			return text, nil
		}
	}
	return "", errors.New("it can't be written into the text as that is laid out")
}

// patchObject returns the content of a patched object.
func patchObject(d input.Document, patch []v1alpha1.PatchOperation) (map[string]any, error) {
	before, err := d.Object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		return nil, err
	}
	after, err := decoded.Apply(before)
	if err != nil {
		return nil, err
	}
	patched := d.Object.DeepCopy()
	return patched.Object, patched.UnmarshalJSON(after)
}

// parseText returns the objects in the text of a file.
func parseText(file string, text []byte) ([]input.Document, []error) {
	documents, errs := input.Read([]string{"-"}, bytes.NewReader(text))
	for i := range documents {
		documents[i].Source.File = file
	}
	return documents, errs
}

// edit applies one operation of a patch to the text of an object.
func edit(text string, root *yaml.Node, o *v1alpha1.PatchOperation) (string, error) {
	keys := keysOf(o.Path)
	parent, flow := root, (*yaml.Node)(nil)
	for _, key := range keys[:len(keys)-1] {
		if flow == nil && parent.Style&yaml.FlowStyle != 0 {
			flow = parent
		}
		if _, parent = child(parent, key); parent == nil {
			return "", fmt.Errorf("it has no %s", o.Path)
		}
	}
	if flow == nil && parent.Style&yaml.FlowStyle != 0 {
		flow = parent
	}
	if flow == root {
		return "", errors.New("an object in JSON or in one line isn't changed")
	}
	last := keys[len(keys)-1]
	value := &yaml.Node{}
	if o.Value != nil {
		if err := yaml.Unmarshal(o.Value.Raw, value); err != nil {
			return "", err
		}
		value = value.Content[0]
		setStyle(value, flow != nil)
	}
	name, old := child(parent, last)
	switch {
	case flow != nil:
		if err := changeNode(parent, last, o.Op, value); err != nil {
			return "", err
		}
		return replaceFlow(text, flow, flow)
	case o.Op == "remove" && parent.Kind == yaml.SequenceNode && old != nil:
		return removeElement(text, parent, old)
	case o.Op == "replace" && old != nil && old.Style&yaml.FlowStyle != 0:
		setStyle(value, true)
		return replaceFlow(text, old, value)
	case o.Op == "add" && parent.Kind == yaml.SequenceNode:
		item, err := encode(value)
		if err != nil {
			return "", err
		}
		return insert(text, parent, "- "+strings.TrimPrefix(yamltext.Indent(item, "  "), "  "))
	case o.Op == "add" && parent.Kind == yaml.MappingNode && name == nil:
		field := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: last}, value}}
		item, err := encode(field)
		if err != nil {
			return "", err
		}
		return insert(text, parent, item)
	}
	return "", fmt.Errorf("%s of %s isn't an edit that can be made in the text", o.Op, o.Path)
}

// changeNode changes a node as an operation says.
func changeNode(parent *yaml.Node, key, op string, value *yaml.Node) error {
	name, old := child(parent, key)
	switch {
	case op == "remove" && parent.Kind == yaml.SequenceNode && old != nil:
		for i := range parent.Content {
			if parent.Content[i] == old {
				parent.Content = append(parent.Content[:i:i], parent.Content[i+1:]...)
				return nil
			}
		}
	case op == "replace" && old != nil:
		*old = *value
		return nil
	case op == "add" && parent.Kind == yaml.SequenceNode:
		parent.Content = append(parent.Content, value)
		return nil
	case op == "add" && parent.Kind == yaml.MappingNode && name == nil:
		parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
		return nil
	}
	return fmt.Errorf("%s of %s isn't an edit that can be made in the text", op, key)
}

// setStyle gives a node from JSON the style of the text around it.
func setStyle(n *yaml.Node, flow bool) {
	n.Style = 0
	if flow && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		setStyle(c, flow)
	}
}

// encode returns a node as a block of text.
func encode(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err := encoder.Encode(n)
	return b.String(), err
}

// replaceFlow replaces a node in brackets by another one.
func replaceFlow(text string, old, now *yaml.Node) (string, error) {
	begin, err := yamltext.Offset(text, old.Line, old.Column)
	if err != nil {
		return "", err
	}
	end, err := yamltext.FlowEnd(text, begin)
	if err != nil {
		return "", err
	}
	encoded, err := encode(now)
	if err != nil {
		return "", err
	}
	return text[:begin] + strings.TrimSuffix(encoded, "\n") + text[end:], nil
}

// insert inserts lines behind a block.
func insert(text string, block *yaml.Node, lines string) (string, error) {
	begin, err := yamltext.Offset(text, block.Line, block.Column)
	if err != nil {
		return "", err
	}
	end := blockEnd(text, begin, block.Column-1, block.Kind == yaml.SequenceNode)
	before := text[:end]
	if !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return before + yamltext.Indent(lines, strings.Repeat(" ", block.Column-1)) + text[end:], nil
}

// removeElement removes an element of a list in lines.
func removeElement(text string, list, element *yaml.Node) (string, error) {
	if len(list.Content) < 2 {
		return "", errors.New("the list would be empty")
	}
	line, err := yamltext.Offset(text, element.Line, 1)
	if err != nil {
		return "", err
	}
	begin, err := yamltext.Offset(text, element.Line, element.Column)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(text[line:begin]) != "-" {
		return "", errors.New("something else is in the line")
	}
	end := blockEnd(text, begin, list.Column, false)
	return text[:line] + text[end:], nil
}

// blockEnd returns the offset behind the last line of a block that begins at an offset and has an indentation.
// Comments behind it are not a part of it.
func blockEnd(text string, begin, indent int, list bool) int {
	end := begin
	for at := begin; at < len(text); {
		next := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		line := text[at:next]
		content := strings.TrimSpace(line)
		if at > begin && content != "" && content[0] != '#' {
			depth := len(line) - len(strings.TrimLeft(line, " "))
			if depth < indent || list && depth == indent && content[0] != '-' || strings.HasPrefix(line, "---") {
				break
			}
		}
		if content != "" && (at == begin || content[0] != '#') {
			end = next
		}
		at = next
	}
	return end
}
