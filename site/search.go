// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// A chunk is what the search finds: the text below one heading of a page.
type chunk struct {
	Page    string `json:"page"`
	Heading string `json:"heading,omitempty"`
	URL     string `json:"url"`
	Text    string `json:"text"`
}

// notSearched is the only page of which the search finds no more than the introduction: the names of two
// thousand tests of Kubernetes have too many words that other pages explain.
const notSearched = "docs/conformance.html"

// addChunks divides a page's text at its headings.
func (p *page) addChunks(tree ast.Node, content []byte) {
	p.chunks = []chunk{{Page: p.Title, URL: p.URL}}
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		last := &p.chunks[len(p.chunks)-1]
		if h, ok := node.(*ast.Heading); ok {
			if h.Level > 1 && p.URL == notSearched {
				return
			}
			if id, found := h.AttributeString("id"); found && h.Level > 1 {
				p.chunks = append(p.chunks, chunk{p.Title, plain(h, content), p.URL + "#" + string(id.([]byte)), ""})
			}
			continue
		}
		said := plain(node, content)
		if _, ok := node.(*ast.Paragraph); ok && p.Summary == "" {
			p.Summary = said
		}
		last.Text = strings.TrimSpace(last.Text + " " + said)
	}
}

// searchIndex returns a script that has the text of all pages. A page that is opened as a file can load
// scripts, and nothing else.
func (b *builder) searchIndex() []byte {
	var all []chunk
	for _, p := range b.order {
		all = append(all, p.chunks...)
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return append(append([]byte("const searchIndex = "), encoded...), ";\n"...)
}
