// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/yamltext"
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
// a table inherit an expected object from their case, the first row decides. Nothing else in a file
// changes.
func Rewrite(updates []Update) (int, error) {
	byFile := map[string][]Update{}
	taken := map[*position]bool{}
	for _, u := range updates {
		if at := u.Case.Expect.at; at != nil && !taken[at] {
			taken[at] = true
			byFile[u.Case.Source.File] = append(byFile[u.Case.Source.File], u)
		}
	}
	n := 0
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		if err := rewriteFile(file, byFile[file]); err != nil {
			errs = append(errs, err)
			continue
		}
		n += len(byFile[file])
	}
	return n, errors.Join(errs...)
}

func rewriteFile(path string, updates []Update) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := rewrite(path, data, updates)
	if err != nil {
		return err
	}
	return os.WriteFile(path, after, info.Mode().Perm())
}

// rewrite returns the data of a file with updated expected objects.
func rewrite(path string, data []byte, updates []Update) ([]byte, error) {
	// From the end, so that the positions before it stay valid.
	slices.SortFunc(updates, func(a, b Update) int {
		x, y := a.Case.Expect.at.node, b.Case.Expect.at.node
		return cmp.Or(y.Line-x.Line, y.Column-x.Column)
	})
	compact := compactLists(string(data))
	text := string(data)
	for _, u := range updates {
		n := u.Case.Expect.at.node
		var err error
		if text, err = splice(text, n, u.Object, compact); err != nil {
			return nil, &input.Error{Source: input.Source{File: path, Line: n.Line},
				Err: fmt.Errorf("the expected object of %s can't be updated: %w", u.Case.Name, err)}
		}
	}
	if _, errs := parse(path, []byte(text), updates[0].Case.Expect.at.within); errs != nil {
		return nil, fmt.Errorf("%s: its expected objects can't be updated: the file would no longer be valid: %w", path,
			errors.Join(errs...))
	}
	return []byte(text), nil
}

// splice returns a text in which a mapping is updated.
func splice(text string, n *yaml.Node, got map[string]any, compact bool) (string, error) {
	begin, err := yamltext.Offset(text, n.Line, n.Column)
	if err != nil {
		return "", err
	}
	indent := strings.Repeat(" ", n.Column-1)
	if n.Style&yaml.FlowStyle == 0 {
		end := blockEnd(text, begin, n.Column-1)
		old := strings.ReplaceAll(indent+text[begin:end], "\n"+indent, "\n")[len(indent):]
		block, err := reencode(old, got, compact, false)
		if err != nil {
			return "", err
		}
		return text[:begin] + strings.TrimPrefix(yamltext.Indent(block, indent), indent) + text[end:], nil
	}
	end, err := yamltext.FlowEnd(text, begin)
	if err != nil {
		return "", err
	}
	line := text[strings.LastIndexByte(text[:begin], '\n')+1 : begin]
	if key := blockKey.FindStringIndex(line); len(n.Content) == 0 && key != nil {
		block, err := reencode("{}", got, compact, false)
		if err != nil {
			return "", err
		}
		indent := strings.Repeat(" ", strings.LastIndex(line, "object")+2)
		block = strings.TrimSuffix(yamltext.Indent(block, indent), "\n")
		return strings.TrimRight(text[:begin], " ") + "\n" + block + text[end:], nil
	}
	flow, err := reencode(text[begin:end], got, compact, true)
	if err != nil {
		return "", err
	}
	return text[:begin] + strings.TrimSuffix(flow, "\n") + text[end:], nil
}

// blockKey matches the text before an object in a mapping of many lines.
var blockKey = regexp.MustCompile(`^[ ]*(- +)*object: +$`)

// reencode returns a mapping in YAML with the values of got.
func reencode(old string, got map[string]any, compact, flow bool) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(old), &document); err != nil {
		return "", err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return "", errors.New("it isn't a mapping that stands by itself")
	}
	if err := renew(document.Content[0], got); err != nil {
		return "", err
	}
	if !flow {
		document.Content[0].Style &^= yaml.FlowStyle
	} else {
		document.Content[0].Style |= yaml.FlowStyle
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if compact {
		encoder.CompactSeqIndent()
	}
	if err := encoder.Encode(&document); err != nil {
		return "", err
	}
	return out.String(), nil
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

// blockEnd returns the offset behind the last line of a block that begins at an offset and has an
// indentation.
func blockEnd(text string, begin, indent int) int {
	end := begin
	for at := begin; at < len(text); {
		next := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		line := text[at:next]
		content := strings.TrimSpace(line)
		if at > begin && content != "" && len(line)-len(strings.TrimLeft(line, " ")) < indent {
			break
		}
		if content != "" {
			end = next
		}
		at = next
	}
	return end
}

// listLine matches a field with a list in the lines below it.
var listLine = regexp.MustCompile(`(?m)^( *)(?:- )?[^\s#-][^\n]*:\n( *)- `)

// compactLists reports whether lists in a file are indented like the fields that have them.
func compactLists(text string) bool {
	match := listLine.FindStringSubmatch(text)
	return match == nil || len(match[1]) == len(match[2])
}
