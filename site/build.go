// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// repository is where files that aren't documents can be read.
const repository = "https://github.com/gatehouse/gatehouse"

//go:embed theme
var theme embed.FS

// templates are the pages' frames.
var templates = template.Must(template.New("").ParseFS(theme, "theme/*.html"))

// A builder builds one version of the site.
type builder struct {
	checkout  string // the directory of the documents
	version   string // the tag or branch
	directory string // the version's directory in the site, or empty
	into      string // the site's directory

	pages    map[string]*page // by their file in the checkout
	order    []*page          // as the sidebar has them
	sections []section
	files    map[string]bool // files that pages show or offer, such as pictures
	errs     []error
}

// A view is what the templates read.
type view struct {
	*page
	This     *page
	Base     string // leads from the page to the top of its version
	Root     string // leads from the page to the top of the site
	Version  string
	Source   string // the page's file on the code host
	Host     string // the repository on the code host
	Sections []section
	Landing  *landing
}

func (b *builder) build() error {
	if err := b.collect(); err != nil {
		return err
	}
	out := filepath.Join(b.into, b.directory)
	if b.directory != "" {
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	b.checkFragments()
	if err := errors.Join(b.errs...); err != nil {
		return err
	}
	for _, p := range b.order {
		if err := b.write(p, "page.html", nil); err != nil {
			return err
		}
	}
	first, err := b.landing()
	if err != nil {
		return err
	}
	if err := b.write(b.pages["README.md"], "landing.html", first); err != nil {
		return err
	}
	if err := b.write404(); err != nil {
		return err
	}
	if err := b.writeAssets(first); err != nil {
		return err
	}
	if err := b.writeFile("search-index.js", b.searchIndex()); err != nil {
		return err
	}
	return b.writeVersions()
}

// write writes a page by a template.
func (b *builder) write(p *page, name string, first *landing) error {
	base := strings.Repeat("../", strings.Count(p.URL, "/"))
	v := view{page: p, This: p, Base: base, Root: base, Version: b.version, Host: repository,
		Source: fmt.Sprintf("%s/blob/%s/%s", repository, b.version, p.Source), Sections: b.sections, Landing: first}
	if b.directory != "" {
		v.Root += strings.Repeat("../", strings.Count(path.Clean(b.directory), "/")+1)
	}
	return b.execute(p.URL, name, v)
}

// write404 writes the page that code hosts show for a missing one, at any depth: its links begin at the
// host's top. The versions share it.
func (b *builder) write404() error {
	if b.directory != "" {
		return nil
	}
	missing := &page{Title: "Page not found", URL: "404.html"}
	return b.execute("404.html", "404.html", view{page: missing, This: missing,
		Base: "/", Root: "/", Version: b.version, Host: repository, Sections: b.sections})
}

func (b *builder) execute(file, name string, v view) error {
	var html bytes.Buffer
	if err := templates.ExecuteTemplate(&html, name, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return b.writeFile(file, html.Bytes())
}

// writeAssets copies the theme, and the files that pages show or offer.
func (b *builder) writeAssets(first *landing) error {
	assets, err := fs.Glob(theme, "theme/*")
	if err != nil {
		return err
	}
	for _, name := range assets {
		if path.Ext(name) == ".html" {
			continue
		}
		content, err := theme.ReadFile(name)
		if err != nil {
			return err
		}
		if err := b.writeFile("assets/"+path.Base(name), content); err != nil {
			return err
		}
	}
	if err := b.writeFile("assets/recordings.css", first.css()); err != nil {
		return err
	}
	schemas, err := filepath.Glob(filepath.Join(b.checkout, "docs/schemas/*.json"))
	if err != nil {
		return err
	}
	for _, name := range schemas {
		b.files["docs/schemas/"+filepath.Base(name)] = true
	}
	for name := range b.files {
		content, err := os.ReadFile(filepath.Join(b.checkout, name))
		if err != nil {
			return err
		}
		if err := b.writeFile(published(name), content); err != nil {
			return err
		}
	}
	return nil
}

// published returns where the site has a file of the checkout that isn't a document.
func published(name string) string {
	return strings.Replace(name, "docs/schemas/", "schemas/", 1)
}

// writeFile writes a file of this version.
func (b *builder) writeFile(name string, content []byte) error {
	name = filepath.Join(b.into, b.directory, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}
