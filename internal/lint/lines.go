// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gatehouse.dev/internal/review/input"
)

// lines knows the lines of fields in files.
type lines struct {
	texts map[string][]byte
	// objects are the nodes of a file's objects by their lines.
	objects map[string]map[int]*yaml.Node
}

func newLines(texts map[string][]byte) *lines {
	return &lines{texts, map[string]map[int]*yaml.Node{}}
}

// of returns the line of a field, or of the nearest field above it that the file has.
func (l *lines) of(d input.Document, pointer string) int {
	text, ok := l.texts[d.Source.File]
	if !ok {
		return d.Source.Line
	}
	if l.objects[d.Source.File] == nil {
		l.objects[d.Source.File] = objectsIn(text)
	}
	node := l.objects[d.Source.File][d.Source.Line]
	if node == nil {
		return d.Source.Line
	}
	line := d.Source.Line
	for _, key := range keysOf(pointer) {
		name, value := child(node, key)
		if value == nil {
			break
		}
		line, node = name.Line, value
	}
	return line
}

// objectsIn returns the nodes of the objects in a file by their lines. Those behind an error of the parser are
// left out.
func objectsIn(text []byte) map[int]*yaml.Node {
	objects := map[int]*yaml.Node{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil || len(document.Content) == 0 {
			return objects
		}
		addObjects(objects, document.Content[0])
	}
}

// addObjects adds an object, and those of a list.
func addObjects(objects map[int]*yaml.Node, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	if objects[n.Line] == nil {
		objects[n.Line] = n
	}
	if _, items := child(n, "items"); items != nil && items.Kind == yaml.SequenceNode {
		for i, item := range items.Content {
			if i == 0 && item.Line == n.Line {
				continue // a list in one line
			}
			addObjects(objects, item)
		}
	}
}

// keysOf returns the keys of a JSON pointer.
func keysOf(pointer string) []string {
	if pointer == "" {
		return nil
	}
	keys := strings.Split(pointer[1:], "/")
	for i := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[i])
	}
	return keys
}

// child returns the nodes of the name and the value of a mapping's field, or of a list's element. They are nil
// if there is none.
func child(n *yaml.Node, key string) (name, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}
