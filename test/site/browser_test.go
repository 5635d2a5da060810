// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"gatehouse.dev/test/chromium"
)

// A browser is a page of the site, which it reads from a server or from files.
type browser struct {
	*chromium.Page
	site string // the address of the site
}

// open starts a browser for the site at an address.
func open(t *testing.T, site string) *browser {
	t.Helper()
	b := &browser{chromium.Open(t), site}
	t.Cleanup(func() {
		for _, text := range b.complaints() {
			t.Error(text)
		}
	})
	return b
}

// served returns a browser that reads the site from a server.
func served(t *testing.T) *browser {
	server := httptest.NewServer(http.FileServer(http.Dir(site(t))))
	t.Cleanup(server.Close)
	return open(t, server.URL+"/")
}

// complaints returns what was wrong since this was called last: requests to elsewhere, and what the page
// complained about.
func (b *browser) complaints() []string {
	requests, wrong := b.Heard()
	for _, to := range requests {
		if !strings.HasPrefix(to, b.site) && !strings.HasPrefix(to, "data:") {
			wrong = append(wrong, "a request goes to "+to)
		}
	}
	return wrong
}

// visit opens a page of the site.
func (b *browser) visit(page string) {
	b.Helper()
	b.Do(chromedp.Navigate(b.site + page))
}

// sizes are the screens on which the pages are read.
var sizes = map[string][2]int64{"phone": {390, 844}, "desktop": {1280, 900}}

// tooWide returns what is wider than the screen.
const tooWide = `(() => {
	const width = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= width) return "";
	return "the page is " + document.documentElement.scrollWidth + " wide: " + [...document.querySelectorAll("body *")]
		.filter(e => e.getBoundingClientRect().right > width + 1 && !e.closest(".scroll *, pre *"))
		.slice(0, 5).map(e => e.tagName + "." + e.className).join(", ");
})()`

// TestBrowser reads all pages of a version on a phone and on a desktop: nothing is wider than the screen,
// nothing is asked of anybody else, and no page complains.
func TestBrowser(t *testing.T) {
	b := served(t)
	b.As(1280, 900, "light", "reduce")
	for _, page := range slices.Sorted(maps.Keys(readSite(t, site(t)+"/main"))) {
		b.visit("main/" + page)
		for name, size := range sizes {
			b.Do(chromedp.EmulateViewport(size[0], size[1]))
			if wide := chromium.See[string](b.Page, tooWide); wide != "" {
				t.Errorf("%s on a %s: %s", page, name, wide)
			}
		}
		for _, text := range slices.Compact(b.complaints()) {
			t.Errorf("%s: %s", page, text)
		}
	}
}

// looked are pages of every sort, which are looked at.
var looked = map[string]string{
	"landing": "index.html", "index": "docs/index.html", "task": "docs/review.html", "concept": "docs/chain.html",
	"reference": "docs/lint.html", "plugin": "plugins/priority.html", "pictures": "docs/dashboard.html", "missing": "404.html",
}

// TestEverybody has axe find what keeps people from reading a page, and takes pictures.
func TestEverybody(t *testing.T) {
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	b := served(t)
	for name, page := range looked {
		for device, size := range sizes {
			for _, scheme := range []string{"light", "dark"} {
				b.As(size[0], size[1], scheme, "reduce")
				// What differs between these two is colors and widths, each by itself.
				if device == "phone" && scheme == "light" && os.Getenv(pictures) == "" {
					continue
				}
				b.visit(page)
				b.shoot(fmt.Sprintf("%s-%s-%s", name, device, scheme))
				chromium.See[any](b.Page, string(axe)+"; axe.run().then(r => { window.violations = r.violations.flatMap(v => "+
					"v.nodes.map(n => v.id + ' ' + n.target + ': ' + n.failureSummary)) }); undefined")
				b.Until("window.violations")
				for _, violation := range chromium.See[[]string](b.Page, "window.violations") {
					t.Errorf("%s on a %s, %s: %s", page, device, scheme, violation)
				}
			}
		}
	}
}

// pictures is the variable that names the directory of pictures.
const pictures = "GATEHOUSE_SITE_PICTURES"

// shoot takes a picture if somebody wants to look at it.
func (b *browser) shoot(name string) {
	b.Helper()
	directory := os.Getenv(pictures)
	if directory == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(directory, name+".png"), b.Picture(), 0o644); err != nil {
		b.Fatal(err)
	}
}

// fileURL returns the address of the site as files.
func fileURL(t *testing.T) string {
	absolute, err := filepath.Abs(site(t))
	if err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: absolute + "/"}).String()
}
