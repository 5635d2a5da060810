// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"gatehouse.dev/test/needs"
)

// A browser is a page in a Chromium of its own, which reads the site from a server or from files.
type browser struct {
	*testing.T
	ctx  context.Context
	site string // the address of the site

	mu    sync.Mutex
	wrong []string // requests to elsewhere, and what the page complains about
}

// deadline is how long anything may take on a busy machine.
const deadline = time.Minute

// open starts a browser for the site at an address.
func open(t *testing.T, site string) *browser {
	t.Helper()
	needs.Programs(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.DisableGPU)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which Chromium has for no root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx, site: site}
	b.do()
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
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

func (b *browser) hear(event any) {
	wrong := ""
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		if to := event.Request.URL; !strings.HasPrefix(to, b.site) && !strings.HasPrefix(to, "data:") {
			wrong = "a request goes to " + to
		}
	case *runtime.EventExceptionThrown:
		wrong = event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			wrong += " " + thrown.Description
		}
	case *runtime.EventConsoleAPICalled:
		wrong = "the console has something of type " + string(event.Type)
	case *log.EventEntryAdded:
		wrong = event.Entry.Text + " " + event.Entry.URL
	}
	if wrong != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, wrong)
	}
}

// complaints returns what was wrong since this was called last.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	b.wrong = nil
	return wrong
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// visit opens a page of the site.
func (b *browser) visit(page string) {
	b.Helper()
	b.do(chromedp.Navigate(b.site + page))
}

// as is how wide the screen is, and what its user likes.
func (b *browser) as(width, height int64, scheme, motion string) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: motion}},
	}); err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height))
}

// see evaluates JavaScript in the page.
func see[T any](b *browser, script string) T {
	b.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return got
}

// until waits for something to be so in the page, or in the one that it leads to.
func (b *browser) until(script string) {
	b.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		// A page that is being left can't answer.
		so, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+script+")"))
		if so {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("waiting for %s: %v; the page says\n%s", script, err, see[string](b, "document.body.innerText"))
		}
	}
}

// press is one key after the other, to what has the focus.
func (b *browser) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		if len(key) > 1 || key < " " {
			b.do(chromedp.KeyEvent(key))
			continue
		}
		for _, params := range []input.DispatchKeyEventParams{
			{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key},
			{Type: input.DispatchKeyEventTypeKeyUp, Key: key},
		} {
			if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, params); err != nil {
				b.Fatal(err)
			}
		}
	}
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
	b.as(1280, 900, "light", "reduce")
	for _, page := range slices.Sorted(maps.Keys(readSite(t, site(t)+"/main"))) {
		b.visit("main/" + page)
		for name, size := range sizes {
			b.do(chromedp.EmulateViewport(size[0], size[1]))
			if wide := see[string](b, tooWide); wide != "" {
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
				b.as(size[0], size[1], scheme, "reduce")
				// What differs between these two is colors and widths, each by itself.
				if device == "phone" && scheme == "light" && os.Getenv(pictures) == "" {
					continue
				}
				b.visit(page)
				b.shoot(fmt.Sprintf("%s-%s-%s", name, device, scheme))
				see[any](b, string(axe)+"; axe.run().then(r => { window.violations = r.violations.flatMap(v => "+
					"v.nodes.map(n => v.id + ' ' + n.target + ': ' + n.failureSummary)) }); undefined")
				b.until("window.violations")
				for _, violation := range see[[]string](b, "window.violations") {
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
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, name+".png"), picture, 0o644)
	}
	if err != nil {
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

// quoted returns text as JavaScript has it.
func quoted(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}
