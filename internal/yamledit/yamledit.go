// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamledit changes documents of a YAML file. The library kyaml changes and writes a document; lines that it would
// only lay out in another way stay as they are written, and so do other documents.
package yamledit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// A Document is one of a file.
type Document struct {
	Root *yaml.RNode
	// before is the number of lines of the file before it.
	before int
}

// At returns the outermost mapping that begins at a line and column of the file, which count from 1; nil if there is
// none. Column 0 is any.
func (d *Document) At(line, column int) *yaml.RNode {
	return find(d.Root.YNode(), line-d.before, column)
}

func find(n *yaml.Node, line, column int) *yaml.RNode {
	if n.Kind == yaml.MappingNode && n.Line == line && (column == 0 || n.Column == column) {
		return yaml.NewRNode(n)
	}
	for _, c := range n.Content {
		if found := find(c, line, column); found != nil {
			return found
		}
	}
	return nil
}

// Edit returns the text of a file after change was called with each of its documents. Documents that can't be parsed are
// an error. change must not add to a document what can't be written.
func Edit(text string, change func(*Document) error) (string, error) {
	var edited strings.Builder
	before := 0
	for _, part := range documents(text) {
		after, err := editDocument(part, before, change)
		if err != nil {
			return "", err
		}
		edited.WriteString(after)
		before += strings.Count(part, "\n")
	}
	return edited.String(), nil
}

// Around returns the document of a text that has a line, which counts from 1, and what is before and behind it.
func Around(text string, line int) (before, document, behind string) {
	at, lines := 0, 0
	for _, part := range documents(text) {
		end := at + len(part)
		if lines += strings.Count(part, "\n"); lines >= line || end == len(text) {
			return text[:at], part, text[end:]
		}
		at = end
	}
	return "", text, ""
}

// documents returns the documents of a text and the lines of --- between them, which together are the text.
func documents(text string) (parts []string) {
	begin, at := 0, 0
	for line := range strings.Lines(text) {
		if content := strings.TrimRight(line, " \t\r\n"); content == "---" || strings.HasPrefix(content, "--- #") {
			parts = append(parts, text[begin:at], line)
			begin = at + len(line)
		}
		at += len(line)
	}
	return append(parts, text[begin:])
}

// editDocument returns the text of a document after change was called with it.
func editDocument(text string, before int, change func(*Document) error) (string, error) {
	if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "---") {
		return text, nil
	}
	root, err := yaml.Parse(text)
	if err != nil {
		return "", fmt.Errorf("the document after line %d: %w", before, err)
	}
	if root.IsNil() || root.YNode().Kind == 0 {
		return text, nil // only comments
	}
	style := yaml.SequenceIndentStyle(yaml.DeriveSeqIndentStyle(text))
	write := func() (string, error) {
		encoded, err := yaml.MarshalWithOptions(root.Document(), &yaml.EncoderOptions{SeqIndent: style})
		return string(encoded), err
	}
	old, err := write()
	if err != nil {
		return "", err
	}
	if err := change(&Document{root, before}); err != nil {
		return "", err
	}
	now, err := write()
	if err != nil || now == old {
		return text, err
	}
	if merged := merge(text, old, now); means(merged, now) {
		return merged, nil
	}
	return now, nil
}

// means reports whether two texts have the same content.
func means(a, b string) bool {
	var x, y any
	return yaml.Unmarshal([]byte(a), &x) == nil && yaml.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// merge returns a text with the changes from old, which says the same in another layout, to now. Between two lines that
// all three have, the text stays if old and now are the same there.
func merge(text, old, now string) string {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines, a, b := slices.Collect(strings.Lines(text)), slices.Collect(strings.Lines(old)), slices.Collect(strings.Lines(now))
	inText, inNow := places(laidOut(a), laidOut(lines)), places(a, b)
	var merged strings.Builder
	p, i, j := 0, 0, 0 // what is before these is merged
	segment := func(toP, toI, toJ int) {
		stated, was, is := lines[p:toP], a[i:toI], b[j:toJ]
		isBlank := func(line string) bool { return strings.TrimSpace(line) == "" }
		begin, end := 0, len(stated)
		switch {
		case slices.Equal(was, is):
			merged.WriteString(strings.Join(stated, ""))
			return
		case len(was) == 0: // what is stated are blank lines
			end = 0
		default:
			for begin < end && isBlank(stated[begin]) {
				begin++
			}
			for end > begin && isBlank(stated[end-1]) {
				end--
			}
		}
		merged.WriteString(strings.Join(stated[:begin], "") + strings.Join(is, "") + strings.Join(stated[end:], ""))
	}
	for k := range a {
		if toP, toJ := inText[k], inNow[k]; toP >= 0 && toJ >= 0 {
			segment(toP, k, toJ)
			merged.WriteString(lines[toP])
			p, i, j = toP+1, k+1, toJ+1
		}
	}
	segment(len(lines), len(a), len(b))
	return merged.String()
}

// laidOut returns lines with single spaces behind their indentation.
func laidOut(lines []string) (all []string) {
	for _, line := range lines {
		content := strings.TrimLeft(line, " ")
		all = append(all, line[:len(line)-len(content)]+strings.Join(strings.Fields(content), " "))
	}
	return all
}

// places returns for each line of a the place in b of the line that is the same, in order; -1 for none.
func places(a, b []string) []int {
	found := slices.Repeat([]int{-1}, len(a))
	for _, block := range difflib.NewMatcherWithJunk(a, b, false, nil).GetMatchingBlocks() {
		for n := range block.Size {
			found[block.A+n] = block.B + n
		}
	}
	return found
}
