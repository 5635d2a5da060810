// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// A landing is what only the first page has.
type landing struct {
	Modes      []mode
	Recordings []*recording
}

// A mode is a row of the README's table: who runs what, and what for.
type mode struct{ You, Run, Get template.HTML }

// landing reads the README's table of modes, and the recordings.
func (b *builder) landing() (*landing, error) {
	content, err := os.ReadFile(filepath.Join(b.checkout, "README.md"))
	if err != nil {
		return nil, err
	}
	first := &landing{}
	heading := ""
	for node := markdown.Parse(content).FirstChild(); node != nil; node = node.NextSibling() {
		switch node := node.(type) {
		case *ast.Heading:
			heading = plain(node, content)
		case *extast.Table:
			if heading != "Which mode is for you" {
				continue
			}
			for row := node.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
				var cells []template.HTML
				for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
					html, err := b.inline(cell, content)
					if err != nil {
						return nil, err
					}
					cells = append(cells, html)
				}
				first.Modes = append(first.Modes, mode{You: cells[0], Run: cells[1], Get: cells[2]})
			}
		}
	}
	if len(first.Modes) == 0 {
		return nil, fmt.Errorf("README.md has no table below the heading Which mode is for you")
	}
	for _, name := range []string{"review", "why"} {
		text, err := os.ReadFile(filepath.Join(b.checkout, "site/recordings", name+".txt"))
		if err != nil {
			return nil, err
		}
		first.Recordings = append(first.Recordings, newRecording(name, string(text)))
	}
	return first, nil
}

// inline returns the text of a table's cell.
func (b *builder) inline(cell ast.Node, content []byte) (template.HTML, error) {
	var html bytes.Buffer
	err := ast.Walk(cell, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if to, ok := node.(*ast.Link); ok && entering {
			address, err := b.resolve(b.pages["README.md"], string(to.Destination))
			to.Destination = []byte(address)
			return ast.WalkContinue, err
		}
		return ast.WalkContinue, nil
	})
	for child := cell.FirstChild(); child != nil && err == nil; child = child.NextSibling() {
		err = markdown.Renderer().Render(&html, content, child)
	}
	return template.HTML(html.String()), err
}

// css returns when each line of the recordings appears. The policy of the pages allows no styles within
// HTML.
func (l *landing) css() []byte {
	var css bytes.Buffer
	for _, r := range l.Recordings {
		r.css(&css)
	}
	return css.Bytes()
}
