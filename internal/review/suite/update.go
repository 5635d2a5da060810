// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/wholefile"
	"gatehouse.dev/internal/yamledit"
)

// position is the position of an expected object in its file.
type position struct {
	node *yaml.Node
	// within are the folders that the suite may read.
	within input.Folders
}

// An Update is the result of a case with an expected object.
type Update struct {
	Case *Case
	// Object is the object without the fields that differ each time.
	Object map[string]any
}

// Rewrite writes the results of cases to the suites' files as their expected objects, and returns how
// many it wrote. An expected object keeps its fields, with their order and comments, except for
// fields that the result doesn't have. An empty one gets all fields of the result. If several rows of
// a table inherit an expected object from their case, the first row decides. Other lines of a file stay as they are
// written. The notes say which files could not be replaced as a whole.
func Rewrite(updates []Update) (n int, notes []string, err error) {
	byFile := map[string][]Update{}
	taken := map[*position]bool{}
	for _, u := range updates {
		if at := u.Case.Expect.at; at != nil && !taken[at] {
			taken[at] = true
			byFile[u.Case.Source.File] = append(byFile[u.Case.Source.File], u)
		}
	}
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		note, err := rewriteFile(file, byFile[file])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if note != "" {
			notes = append(notes, note)
		}
		n += len(byFile[file])
	}
	return n, notes, errors.Join(errs...)
}

func rewriteFile(path string, updates []Update) (note string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	after, err := rewrite(path, data, updates)
	if err != nil {
		return "", err
	}
	return wholefile.Replace(path, after, 0o644)
}

// rewrite returns the data of a file with updated expected objects.
func rewrite(path string, data []byte, updates []Update) ([]byte, error) {
	left := slices.Clone(updates)
	text, err := yamledit.Edit(string(data), func(d *yamledit.Document) error {
		left = slices.DeleteFunc(left, func(u Update) bool {
			at := u.Case.Expect.at.node
			n := d.At(at.Line, at.Column)
			return n != nil && renew(n.YNode(), u.Object) == nil
		})
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("line %d has none", left[0].Case.Expect.at.node.Line)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: its expected objects can't be updated: %w", path, err)
	}
	if _, errs := parse(path, []byte(text), updates[0].Case.Expect.at.within); errs != nil {
		return nil, fmt.Errorf("%s: its expected objects can't be updated: the file would no longer be valid: %w", path,
			errors.Join(errs...))
	}
	return []byte(text), nil
}

// renew gives a node a value. The text of nodes that have their value already stays.
func renew(n *yaml.Node, got any) error {
	switch got := got.(type) {
	case map[string]any:
		if n.Kind == yaml.MappingNode && len(n.Content) > 0 {
			return renewFields(n, got)
		}
	case []any:
		if n.Kind == yaml.SequenceNode {
			for len(n.Content) < len(got) {
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"})
			}
			n.Content = n.Content[:len(got)]
			for i := range got {
				if err := renew(n.Content[i], got[i]); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		if n.Kind == yaml.ScalarNode {
			if value, err := scalar(n); err == nil && Equal(value, got) {
				return nil
			}
		}
	}
	fresh := &yaml.Node{}
	if err := fresh.Encode(got); err != nil {
		return err
	}
	if _, text := got.(string); text && n.Kind == yaml.ScalarNode && fresh.Style == 0 {
		fresh.Style = n.Style & (yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle)
	}
	fresh.HeadComment, fresh.LineComment, fresh.FootComment = n.HeadComment, n.LineComment, n.FootComment
	*n = *fresh
	return nil
}

// renewFields gives the fields of a mapping their values, and removes fields that got doesn't have.
func renewFields(n *yaml.Node, got map[string]any) error {
	var content []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		now, ok := got[key.Value]
		switch {
		case ok:
			if err := renew(value, now); err != nil {
				return err
			}
		case key.Tag != "!!merge" && value.Tag != "!!null":
			continue
		}
		content = append(content, key, value)
	}
	n.Content = content
	return nil
}
