// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// A page is a document of the site.
type page struct {
	Source     string // its file in the checkout
	URL        string // its file in the version
	Title      string
	Summary    string // its first paragraph, as text
	Section    string
	Body       template.HTML
	Headings   []heading // of the second and third level
	Prev, Next *page

	chunks  []chunk // for the search
	anchors map[string]bool
	links   []link // to other pages
}

// A heading is a line of a page's table of contents.
type heading struct {
	Level    int
	ID, Text string
}

// A link leads from one page to a part of another.
type link struct{ page, fragment string }

// A section is a part of the sidebar.
type section struct {
	Title  string
	Groups []group
}

// A group is a list of pages in the sidebar.
type group struct {
	Title  string
	Folded bool // only its title is shown on pages of other groups
	Pages  []*page
}

// pageURL returns where a document is in the version.
func pageURL(source string) string {
	switch {
	case source == "README.md":
		return "index.html"
	case source == "docs/README.md":
		return "docs/index.html"
	case strings.Count(source, "/") == 1 && path.Base(source) == "README.md":
		return path.Dir(source) + "/index.html"
	case path.Base(source) == "README.md":
		return path.Dir(source) + ".html"
	}
	return strings.ToLower(strings.TrimSuffix(source, ".md")) + ".html"
}

// collect reads the documents, from README.md and docs/README.md on, by their links, and arranges them
// as docs/README.md does.
func (b *builder) collect() error {
	b.pages, b.files = map[string]*page{}, map[string]bool{}
	waiting := []string{"README.md", "docs/README.md"}
	for len(waiting) > 0 {
		source := waiting[0]
		waiting = waiting[1:]
		if b.pages[source] != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(b.checkout, source))
		if err != nil {
			return err
		}
		p, err := b.read(source, text)
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		b.pages[source] = p
		for _, to := range p.links {
			waiting = append(waiting, to.page)
		}
	}
	return b.arrange()
}

// arrange makes the sidebar: the sections and tables of docs/README.md, with the manual pages of plugins
// and the examples below, and what is left in a section of its own.
func (b *builder) arrange() error {
	index := b.pages["docs/README.md"]
	text, err := os.ReadFile(filepath.Join(b.checkout, index.Source))
	if err != nil {
		return err
	}
	placed := map[*page]bool{index: true, b.pages["README.md"]: true}
	place := func(p *page, in *group) {
		if p != nil && !placed[p] {
			placed[p] = true
			in.Pages = append(in.Pages, p)
		}
	}
	begin := section{Title: "Begin", Groups: []group{{Pages: []*page{index}}}}
	place(b.pages["docs/install.md"], &begin.Groups[0])
	place(b.pages["docs/get-started.md"], &begin.Groups[0])
	b.sections = []section{begin}
	for node := markdown.Parse(text).FirstChild(); node != nil; node = node.NextSibling() {
		switch node := node.(type) {
		case *ast.Heading:
			if node.Level == 2 {
				b.sections = append(b.sections, section{Title: plain(node, text)})
			}
		case *extast.Table:
			in := group{Title: upper(plain(node.FirstChild().FirstChild(), text))}
			for row := node.FirstChild().NextSibling(); row != nil; row = row.NextSibling() {
				ast.Walk(row.FirstChild(), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
					if to, ok := n.(*ast.Link); ok && entering {
						target, _, _ := strings.Cut(string(to.Destination), "#")
						place(b.pages[path.Join("docs", target)], &in)
					}
					return ast.WalkContinue, nil
				})
			}
			if last := &b.sections[len(b.sections)-1]; len(in.Pages) > 0 {
				last.Groups = append(last.Groups, in)
			}
		}
	}
	rest := map[string]*group{"plugins": {Title: "Manual pages of plugins", Folded: true},
		"removed":  {Title: "Plugins that Kubernetes removed", Folded: true},
		"examples": {Title: "Examples", Folded: true}, "": {Title: "More"}}
	for _, source := range slices.Sorted(maps.Keys(b.pages)) {
		directory, _, _ := strings.Cut(source, "/")
		place(b.pages[source], cmp.Or(rest[directory], rest[""]))
	}
	for i := range b.sections {
		if b.sections[i].Title == "Reference" {
			b.sections[i].Groups = append(b.sections[i].Groups, *rest["plugins"], *rest["removed"],
				*rest["examples"])
		}
	}
	if len(rest[""].Pages) > 0 {
		b.sections[len(b.sections)-1].Groups = append(b.sections[len(b.sections)-1].Groups, *rest[""])
	}
	for _, s := range b.sections {
		for _, g := range s.Groups {
			for _, p := range g.Pages {
				p.Section = s.Title
				if g.Title != "" {
					p.Section += " · " + g.Title
				}
				if n := len(b.order); n > 0 {
					p.Prev, b.order[n-1].Next = b.order[n-1], p
				}
				b.order = append(b.order, p)
			}
		}
	}
	if len(b.order)+1 != len(b.pages) {
		return fmt.Errorf("%d of %d documents are in the sidebar: does docs/README.md have a section Reference?",
			len(b.order)+1, len(b.pages))
	}
	return nil
}

// Label returns the title for a narrow column: a long name may be broken before its upper case letters.
func (p *page) Label() template.HTML {
	return template.HTML(innerCapital.ReplaceAllString(html.EscapeString(p.Title), "$1<wbr>$2"))
}

var innerCapital = regexp.MustCompile(`([a-z])([A-Z])`)

// upper returns a title with an upper case letter at its beginning.
func upper(title string) string {
	if title == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(title)
	return strings.ToUpper(string(first)) + title[size:]
}

// checkFragments finds links to parts of pages that have no such part.
func (b *builder) checkFragments() {
	for _, p := range b.pages {
		for _, to := range p.links {
			if to.fragment != "" && !b.pages[to.page].anchors[to.fragment] {
				b.errs = append(b.errs, fmt.Errorf("%s: a link leads to %s#%s, which has no such heading",
					p.Source, to.page, to.fragment))
			}
		}
	}
}

// Has reports whether a group has a page.
func (g group) Has(p *page) bool { return slices.Contains(g.Pages, p) }
