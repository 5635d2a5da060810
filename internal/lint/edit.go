// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/yamledit"
)

// patchText applies a patch to the text of one of the objects in a file. It returns an error if the result isn't
// exactly the objects with the patched one among them.
func patchText(text string, d input.Document, patch []v1alpha1.PatchOperation) (string, error) {
	before, part, behind := yamledit.Around(text, d.Source.Line)
	d.Source.Line -= strings.Count(before, "\n")
	want, errs := parseText(d.Source.File, []byte(part))
	i := slices.IndexFunc(want, func(other input.Document) bool { return other.Source == d.Source })
	if i < 0 {
		return "", errors.Join(append(errs, errors.New("its place in the file isn't known"))...)
	}
	patched, err := patchObject(d, patch)
	if err != nil {
		return "", err
	}
	want[i].Object.Object = patched
	after, err := yamledit.Edit(part, func(document *yamledit.Document) error {
		object := document.At(d.Source.Line, 0)
		if object == nil {
			return nil
		}
		if object.YNode().Style&yaml.FlowStyle != 0 {
			return errors.New("an object in JSON or in one line isn't changed")
		}
		for i := range patch {
			if err := edit(object, &patch[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	got, errs := parseText(d.Source.File, []byte(after))
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	if !slices.EqualFunc(got, want, func(got, want input.Document) bool {
		return equality.Semantic.DeepEqual(got.Object.Object, want.Object.Object)
	}) {
		return "", errors.New("it can't be written into the text as that is laid out")
	}
	return before + after + behind, nil
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

// edit applies an operation of a patch to an object. Tests are for servers: the text is what the finding is about.
func edit(object *yaml.RNode, o *v1alpha1.PatchOperation) error {
	if o.Op == "test" {
		return nil
	}
	keys := keysOf(o.Path)
	last := keys[len(keys)-1]
	parent, err := object.Pipe(yaml.Lookup(keys[:len(keys)-1]...))
	if err != nil {
		return err
	}
	if parent == nil {
		return fmt.Errorf("it has no %s", o.Path)
	}
	var value *yaml.RNode
	if o.Value != nil {
		text, err := sigsyaml.JSONToYAML(o.Value.Raw)
		if err != nil {
			return err
		}
		if value, err = yaml.Parse(string(text)); err != nil {
			return err
		}
	}
	switch list := parent.YNode(); {
	case list.Kind != yaml.SequenceNode && o.Op == "remove":
		return parent.PipeE(yaml.Clear(last))
	case list.Kind != yaml.SequenceNode:
		// The comments of the field stay, and its style only if it is a text.
		if old := parent.Field(last); old != nil {
			head, line, foot := old.Value.YNode().HeadComment, old.Value.YNode().LineComment, old.Value.YNode().FootComment
			node := value.YNode()
			node.HeadComment, node.LineComment, node.FootComment = head, line, foot
			*old.Value.YNode() = *node
			return nil
		}
		return parent.PipeE(yaml.SetField(last, value))
	case o.Op == "add" && last == "-":
		if n := len(list.Content); n > 0 { // what stands below the list stays there
			value.YNode().FootComment, list.Content[n-1].FootComment = list.Content[n-1].FootComment, ""
		}
		return parent.PipeE(yaml.Append(value.YNode()))
	default:
		i, err := strconv.Atoi(last)
		if err != nil || i < 0 || i >= len(list.Content) {
			return fmt.Errorf("it has no %s", o.Path)
		}
		switch o.Op {
		case "remove":
			list.Content = slices.Delete(list.Content, i, i+1)
		case "replace":
			list.Content[i] = value.YNode()
		default:
			list.Content = slices.Insert(list.Content, i, value.YNode())
		}
		return nil
	}
}
