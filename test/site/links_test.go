// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A page is what a file says about itself and others.
type page struct {
	title   string
	ids     map[string]bool
	links   []string // of anchors, to pages and to elsewhere
	needs   []string // files that the page shows or runs
	count   map[atom.Atom]int
	unnamed []string // pictures without a text, and links without one
}

// readSite returns the pages below a directory by their names.
func readSite(t *testing.T, directory string) map[string]*page {
	t.Helper()
	pages := map[string]*page{}
	err := fs.WalkDir(os.DirFS(directory), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".html" {
			return err
		}
		file, err := os.Open(filepath.Join(directory, name))
		if err != nil {
			return err
		}
		defer file.Close()
		tree, err := html.Parse(file)
		pages[name] = newPage(tree)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func newPage(tree *html.Node) *page {
	p := &page{ids: map[string]bool{}, count: map[atom.Atom]int{}}
	for node := range tree.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		p.count[node.DataAtom]++
		attributes := map[string]string{}
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		if id := attributes["id"]; id != "" {
			p.ids[id] = true
		}
		switch node.DataAtom {
		case atom.Title:
			// A picture has a title too.
			p.title = node.FirstChild.Data
		case atom.A:
			p.links = append(p.links, attributes["href"])
			if attributes["aria-label"] == "" && strings.TrimSpace(said(node)) == "" {
				p.unnamed = append(p.unnamed, "the link to "+attributes["href"])
			}
		case atom.Link:
			p.needs = append(p.needs, attributes["href"])
		case atom.Script, atom.Img:
			p.needs = append(p.needs, attributes["src"])
			if node.DataAtom == atom.Img && attributes["alt"] == "" {
				p.unnamed = append(p.unnamed, "the picture "+attributes["src"])
			}
		}
	}
	return p
}

// said returns what a link says: its text, and the texts of its pictures.
func said(node *html.Node) (text string) {
	for n := range node.Descendants() {
		if n.Type == html.TextNode {
			text += n.Data
		}
		for _, a := range n.Attr {
			if a.Key == "alt" {
				text += a.Val
			}
		}
	}
	return text
}

// TestPages checks that every link and every file that a page needs is there, and what a page must have
// to be read by everybody.
func TestPages(t *testing.T) {
	directory := site(t)
	pages := readSite(t, directory)
	if len(pages) < 300 {
		t.Errorf("the site has %d pages, want more than 100 of each version", len(pages))
	}
	titles := map[string]string{}
	for name, p := range pages {
		for _, wrong := range p.unnamed {
			t.Errorf("%s: %s has no text", name, wrong)
		}
		for _, element := range []atom.Atom{atom.H1, atom.Main, atom.Header, atom.Footer, atom.Title} {
			if p.count[element] != 1 {
				t.Errorf("%s has %d elements %s, want one", name, p.count[element], element)
			}
		}
		if p.count[atom.Style] != 0 {
			t.Errorf("%s has styles, which its policy forbids", name)
		}
		if !strings.HasPrefix(name, "main/") && !strings.HasPrefix(name, "v0.1/") {
			if other, found := titles[p.title]; found {
				t.Errorf("%s and %s have the same title %q", name, other, p.title)
			}
			titles[p.title] = name
		}
		for _, target := range p.needs {
			if _, err := os.Stat(filepath.Join(directory, resolve(t, name, target).Path)); err != nil {
				t.Errorf("%s needs %s: %v", name, target, err)
			}
		}
		for _, target := range p.links {
			to := resolve(t, name, target)
			switch found := pages[to.Path]; {
			case to.Host != "" || to.Scheme == "mailto":
				if to.Scheme == "http" {
					t.Errorf("%s: the link to %s isn't encrypted", name, target)
				}
			case found == nil:
				if _, err := os.Stat(filepath.Join(directory, to.Path)); err != nil || path.Ext(to.Path) == "" {
					t.Errorf("%s: the link to %s leads nowhere", name, target)
				}
			case to.Fragment != "" && !found.ids[to.Fragment]:
				t.Errorf("%s: the link to %s leads to no part of the page", name, target)
			}
		}
	}
}

// TestGoImport checks that the go command finds the repository: at the module's path, and at those of packages,
// for which a host of static pages answers with its page for missing ones.
// Source: go help importpath.
func TestGoImport(t *testing.T) {
	directory := site(t)
	for _, name := range []string{"index.html", "404.html"} {
		text, err := os.ReadFile(filepath.Join(directory, name))
		if want := `<meta name="go-import" content="gatehouse.dev git https://github.com/gatehouse/gatehouse">`; err != nil ||
			!strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s (%v)", name, want, err)
		}
	}
}

// resolve returns where a link leads to: the path is in the site's directory.
func resolve(t *testing.T, from, target string) *url.URL {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatalf("%s: the link to %s: %v", from, target, err)
	}
	if to.Host != "" || to.Scheme != "" {
		return to
	}
	resolved := (&url.URL{Path: "/" + from}).ResolveReference(to)
	resolved.Path = strings.TrimPrefix(resolved.Path, "/")
	return resolved
}

// TestClicks checks that all pages of a version are three clicks from its first one at most, and that
// each of its documents is a page.
func TestClicks(t *testing.T) {
	pages := readSite(t, site(t)+"/main")
	clicks := map[string]int{"index.html": 0}
	for waiting := []string{"index.html"}; len(waiting) > 0; waiting = waiting[1:] {
		from := waiting[0]
		for _, target := range pages[from].links {
			to := resolve(t, from, target)
			if _, known := clicks[to.Path]; !known && to.Host == "" && pages[to.Path] != nil {
				clicks[to.Path] = clicks[from] + 1
				waiting = append(waiting, to.Path)
			}
		}
	}
	for name := range pages {
		if n, found := clicks[name]; !found || n > 3 {
			t.Errorf("%s can't be reached in three clicks", name)
		}
	}
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "plugins/*/README.md", "removed/*/README.md", "examples/*/README.md", "removed/examples/*/README.md"} {
		found, err := filepath.Glob(root + "/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		documents = append(documents, found...)
	}
	for _, document := range documents {
		name := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(document, root+"/"), ".md"))
		name, folder := strings.CutSuffix(name, "/readme")
		if name == "readme" {
			name = "index"
		}
		candidates := []string{name + ".html"}
		if folder {
			candidates = append(candidates, name+"/index.html")
		}
		if !slices.ContainsFunc(candidates, func(c string) bool { return pages[c] != nil }) {
			t.Errorf("%s isn't a page of the site: no document leads to it", document)
		}
	}
}
