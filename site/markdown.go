// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html/template"
	"image/png"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A document is Markdown's parser and renderer, as documents are read on the code host.
type document struct{ goldmark.Markdown }

// The alignment of a table's cells is an attribute: the policy of the pages allows no styles within HTML.
var markdown = document{goldmark.New(goldmark.WithExtensions(extension.Linkify, extension.Strikethrough,
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))))}

// Parse returns the tree of a document.
func (d document) Parse(source []byte) ast.Node { return d.Parser().Parse(text.NewReader(source)) }

// read makes a page of a document.
func (b *builder) read(source string, content []byte) (*page, error) {
	p := &page{Source: source, URL: pageURL(source), anchors: map[string]bool{}}
	tree := markdown.Parse(content)
	err := ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			p.addHeading(node, content)
		case *ast.Link:
			before := len(p.links)
			to, err := b.resolve(p, string(node.Destination))
			if err != nil {
				b.errs = append(b.errs, err)
			}
			if len(p.links) > before && strings.HasSuffix(plain(node, content), ".md") {
				if err := b.name(node, p.links[before]); err != nil {
					return ast.WalkStop, err
				}
			}
			node.Destination = []byte(to)
		case *ast.Image:
			return ast.WalkContinue, b.addImage(p, node)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	p.addChunks(tree, content)
	var html bytes.Buffer
	if err := markdown.Renderer().Render(&html, content, tree); err != nil {
		return nil, err
	}
	body := shortCode.ReplaceAllString(tables.Replace(html.String()), `<code class="short">$1</code>`)
	p.Body = template.HTML(onlyHeading.ReplaceAllString(body, "<tr>\n<th colspan=\"2\">$1</th>\n</tr>\n</thead>"))
	if p.Title == "" {
		return nil, fmt.Errorf("it has no title")
	}
	return p, nil
}

// tables lets wide tables be scrolled by themselves, and takes headings without text out of tables.
var tables = strings.NewReplacer(
	"<table>", `<div class="scroll"><table>`, "</table>", "</table></div>",
	"<thead>\n<tr>\n<th></th>\n<th></th>\n</tr>\n</thead>\n", "",
	"<thead>\n<tr>\n<th></th>\n<th></th>\n<th></th>\n</tr>\n</thead>\n", "",
	"<th></th>", "<td></td>",
	"<!-- raw HTML omitted -->\n", "",
)

var (
	// shortCode matches code that stays on one line: a flag isn't broken after its first hyphen.
	shortCode = regexp.MustCompile(`<code>([^<\s]{1,24})</code>`)
	// onlyHeading matches a heading that is that of the column beside it too.
	onlyHeading = regexp.MustCompile(`<tr>\n<th>(.*)</th>\n<td></td>\n</tr>\n</thead>`)
)

func (p *page) addHeading(node *ast.Heading, content []byte) {
	title := plain(node, content)
	id := anchor(title)
	for n := 1; p.anchors[id]; n++ {
		id = anchor(title) + "-" + strconv.Itoa(n)
	}
	p.anchors[id] = true
	node.SetAttributeString("id", []byte(id))
	switch {
	case node.Level == 1 && p.Title == "":
		p.Title = title
	case node.Level == 2 || node.Level == 3:
		p.Headings = append(p.Headings, heading{node.Level, id, title})
	}
}

// anchor returns the fragment by which the code host leads to a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// resolve returns the address of a link's target: in the site, or on the code host if the target is a
// file that isn't a document.
func (b *builder) resolve(p *page, target string) (string, error) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return target, nil
	}
	file, fragment, _ := strings.Cut(target, "#")
	name := p.Source
	if file != "" {
		name = path.Join(path.Dir(p.Source), file)
	}
	info, err := os.Stat(filepath.Join(b.checkout, name))
	if err != nil {
		return "", fmt.Errorf("%s: the link to %s leads nowhere: %w", p.Source, target, err)
	}
	kind := "blob"
	if info.IsDir() {
		kind = "tree"
		if _, err := os.Stat(filepath.Join(b.checkout, name, "README.md")); err == nil {
			name = path.Join(name, "README.md")
		}
	}
	base := strings.Repeat("../", strings.Count(p.URL, "/"))
	switch {
	case path.Ext(name) == ".md":
		p.links = append(p.links, link{name, fragment})
		if fragment != "" {
			fragment = "#" + fragment
		}
		if file == "" {
			return fragment, nil
		}
		return base + pageURL(name) + fragment, nil
	case strings.HasPrefix(name, "docs/schemas/"):
		b.files[name] = true
		return base + published(name), nil
	}
	return fmt.Sprintf("%s/%s/%s/%s", repository, kind, b.version, name), nil
}

// name gives a link that reads as the file of a document the title of the document, or of its part: the site has no
// such file.
func (b *builder) name(node *ast.Link, to link) error {
	content, err := os.ReadFile(filepath.Join(b.checkout, to.page))
	if err != nil {
		return err
	}
	for n := markdown.Parse(content).FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			if title := plain(h, content); to.fragment == "" || to.fragment == anchor(title) {
				node.RemoveChildren(node)
				node.AppendChild(node, ast.NewString([]byte(title)))
				break
			}
		}
	}
	return nil
}

// addImage has the site show a picture, whose size keeps the text from moving when it is loaded.
func (b *builder) addImage(p *page, node *ast.Image) error {
	name := path.Join(path.Dir(p.Source), string(node.Destination))
	file, err := os.Open(filepath.Join(b.checkout, name))
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := png.DecodeConfig(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.files[name] = true
	node.Destination = []byte(strings.Repeat("../", strings.Count(p.URL, "/")) + name)
	node.SetAttributeString("width", []byte(strconv.Itoa(size.Width)))
	node.SetAttributeString("height", []byte(strconv.Itoa(size.Height)))
	node.SetAttributeString("loading", []byte("lazy"))
	return nil
}

// plain returns the text of a part of a document.
func plain(node ast.Node, content []byte) string {
	var b strings.Builder
	ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if node.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Text:
			b.Write(node.Segment.Value(content))
			if node.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(node.Value)
		case *ast.AutoLink:
			b.Write(node.Label(content))
		case *ast.FencedCodeBlock:
			b.Write(node.Lines().Value(content))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
