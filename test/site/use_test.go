// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatehouse.dev/test/chromium"
)

// TestSearch finds pages by what people look for, with the keyboard, from a server and from files.
func TestSearch(t *testing.T) {
	for name, b := range map[string]*browser{"served": served(t), "files": open(t, fileURL(t))} {
		b.As(1280, 900, "light", "reduce")
		for query, want := range map[string]string{
			"namespace stuck":      "plugins/namespacelifecycle.html",
			"--feature-gates":      "docs/serve-flags.html",
			"decision changedBy":   "docs/api-fields.html",
			"podsecurity":          "plugins/podsecurity.html",
			"pod security":         "plugins/podsecurity.html",
			"--decision-max-count": "docs/serve-flags.html",
			"own-pods":             "docs/lint.html",
			"apiserver_admission_webhook_fail_open_count": "docs/metrics.html",
			"exit code":   "docs/exit-codes.html",
			"eks audit":   "docs/audit-logs.html",
			"conformance": "docs/conformance.html",
		} {
			b.visit("main/plugins/priority.html")
			b.Press("/")
			if !chromium.See[bool](b.Page, "document.activeElement.id === 'query'") {
				t.Fatal("the key / doesn't lead to the search")
			}
			b.Press(strings.Split(query, "")...)
			b.Until("document.querySelector('#results').dataset.query === " + chromium.Quoted(query))
			found := chromium.See[[]string](b.Page, "[...document.querySelectorAll('#results a')].map(a => a.getAttribute('href'))")
			if !strings.Contains(strings.Join(found, " ")+" ", want) {
				t.Errorf("%s: the search for %s finds %q, want %s", name, query, found, want)
			}
		}
		b.shoot("search-" + name)
		b.Press(kb.ArrowDown, kb.ArrowUp, kb.Enter)
		b.Until("!location.pathname.endsWith('plugins/priority.html') && document.readyState === 'complete'")
		b.Press("/")
		b.Press(strings.Split("xyzzy quux", "")...)
		b.Until("document.querySelector('.none').textContent.includes('xyzzy quux')")
		b.Press(kb.Escape)
		b.Until("document.querySelector('.results').hidden")
	}
}

// TestVersions goes from one version to another by the list, without a server too.
func TestVersions(t *testing.T) {
	for _, b := range []*browser{served(t), open(t, fileURL(t))} {
		b.As(1280, 900, "light", "reduce")
		choose := func(directory string) {
			t.Helper()
			chromium.See[any](b.Page, "{ const s = document.querySelector('.versions'); s.value = "+chromium.Quoted(directory)+
				"; s.dispatchEvent(new Event('change')); }")
		}
		at := func(path, version string) {
			t.Helper()
			b.Until("location.href === " + chromium.Quoted(b.site+path) + " && document.readyState === 'complete'")
			if got := chromium.See[string](b.Page, "document.querySelector('.versions').selectedOptions[0].textContent"); got != version {
				t.Errorf("%s is shown as version %s, want %s", path, got, version)
			}
		}
		b.visit("docs/lint.html")
		at("docs/lint.html", "v0.2.0")
		if !chromium.See[bool](b.Page, "document.querySelector('.notice').hidden") {
			t.Error("the newest version has a notice")
		}
		choose("main/")
		at("main/docs/lint.html", "main")
		if got := chromium.See[string](b.Page, "document.querySelector('.notice').innerText"); !strings.Contains(got, "newest release, v0.2.0") {
			t.Errorf("the notice of main is %q", got)
		}
		choose("v0.1/")
		at("v0.1/docs/lint.html", "v0.1.0")
		chromium.See[any](b.Page, "document.querySelector('.notice a').click()")
		at("docs/lint.html", "v0.2.0")
	}
}

// TestTheme has the page be dark as the system is, or as its reader chose.
func TestTheme(t *testing.T) {
	b := served(t)
	background := func() string { return chromium.See[string](b.Page, "getComputedStyle(document.body).backgroundColor") }
	b.As(1280, 900, "light", "reduce")
	b.visit("index.html")
	light := background()
	b.As(1280, 900, "dark", "reduce")
	dark := background()
	if light == dark {
		t.Errorf("the page is as %s in the dark", light)
	}
	chromium.See[any](b.Page, "document.querySelector('button.theme').click()")
	if got := background(); got != light {
		t.Errorf("after the choice of light the page is %s, want %s", got, light)
	}
	b.visit("docs/review.html")
	if got := background(); got != light {
		t.Errorf("on the next page it is %s, want %s", got, light)
	}
}

// TestMenu opens the menu on a phone, and closes it by keyboard.
func TestMenu(t *testing.T) {
	b := served(t)
	b.As(390, 844, "light", "reduce")
	b.visit("docs/review.html")
	const shown = "document.querySelector('.sidebar').checkVisibility()"
	if chromium.See[bool](b.Page, shown) {
		t.Error("the menu is open from the beginning")
	}
	chromium.See[any](b.Page, "document.querySelector('button.menu').click()")
	if !chromium.See[bool](b.Page, shown) {
		t.Error("the menu doesn't open")
	}
	b.shoot("menu-phone-light")
	b.Press(kb.Escape)
	if chromium.See[bool](b.Page, shown) || !chromium.See[bool](b.Page, "document.activeElement.matches('button.menu')") {
		t.Error("the key Escape doesn't close the menu")
	}
	b.visit("index.html")
	if !chromium.See[bool](b.Page, "[...document.querySelectorAll('nav.main a')].every(e => e.checkVisibility())") {
		t.Error("the first page, which has no menu, doesn't show its links")
	}
}

// TestCopy copies the commands of a block, without prompts and what they print.
func TestCopy(t *testing.T) {
	b := served(t)
	b.As(1280, 900, "light", "reduce")
	b.visit("docs/metrics.html")
	chromium.See[any](b.Page, `{
		navigator.clipboard.writeText = async text => { window.copied = text; };
		[...document.querySelectorAll(".code")].find(c => c.textContent.includes("pod/web created")).querySelector(".copy").click();
	}`)
	b.Until("window.copied")
	got := chromium.See[string](b.Page, "window.copied")
	if !strings.HasPrefix(got, "kubectl run web --image=nginx\nkubectl get --raw=/metrics") || strings.Contains(got, "created") {
		t.Errorf("copied %q", got)
	}
	b.As(390, 844, "light", "reduce")
	b.visit("docs/schemas.html")
	const above = `[...document.querySelectorAll(".code")].every(c => c.querySelector(".copy").getBoundingClientRect().bottom <=
		c.querySelector("code").getBoundingClientRect().top)`
	if !chromium.See[bool](b.Page, above) {
		t.Error("a button covers the beginning of its block")
	}
}

// TestFirstScreen has the first page say what this is, show the recordings, and say who uses which mode, on one
// screen. The terminal is as tall as the longest recording, and the others fill most of it.
func TestFirstScreen(t *testing.T) {
	b := served(t)
	b.As(1280, 900, "light", "reduce")
	for _, page := range []string{"index.html", "main/index.html"} { // which has a notice above the text
		b.visit(page)
		for _, name := range []string{"review", "why"} {
			chromium.See[any](b.Page, "document.querySelector('[data-shows="+name+"]').click()")
			b.shoot("landing-" + name)
			if bottom := chromium.See[float64](b.Page, "document.querySelector('.modes').getBoundingClientRect().bottom"); bottom > 900 {
				t.Errorf("%s: while %s is shown, the modes end at %.0f, below the screen's 900", page, name, bottom)
			}
			const filled = "(t => t.querySelector('pre').offsetHeight / t.offsetHeight)(document.querySelector('.terminal:not([hidden])'))"
			if part := chromium.See[float64](b.Page, filled); part < 0.7 {
				t.Errorf("%s: %s fills only %.0f %% of the terminal", page, name, 100*part)
			}
		}
	}
}

// TestRecording has the recordings play, be shown at once on phones and to readers who mind motion, and be there
// without scripts.
func TestRecording(t *testing.T) {
	b := served(t)
	const last = "getComputedStyle([...document.querySelectorAll('.terminal:not([hidden]) .line')].at(-1)).opacity"
	b.As(1280, 900, "light", "no-preference")
	b.visit("index.html")
	if got := chromium.See[string](b.Page, last); got != "0" {
		t.Errorf("the last line is there from the beginning: its opacity is %s", got)
	}
	b.Until(last + " === '1'")
	chromium.See[any](b.Page, "document.querySelector('[data-shows=why]').click()")
	b.Until("document.querySelector('#why').checkVisibility() && !document.querySelector('#review').checkVisibility()")
	b.Until(last + " === '1'")

	b.As(1280, 900, "light", "reduce")
	b.visit("index.html")
	if got := chromium.See[string](b.Page, last); got != "1" {
		t.Errorf("with reduced motion the last line's opacity is %s", got)
	}
	b.As(390, 844, "light", "no-preference")
	b.visit("index.html")
	if got := chromium.See[string](b.Page, last); got != "1" || chromium.See[bool](b.Page, "document.querySelector('.replay').checkVisibility()") {
		t.Errorf("on a phone the last line's opacity is %s, or there is a button that plays it again", got)
	}
	if _, err := chromedp.Call(b.Context, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.As(390, 844, "light", "no-preference")
	b.visit("index.html")
	if !chromium.See[bool](b.Page, "[...document.querySelectorAll('.terminal')].every(e => e.checkVisibility())") {
		t.Error("without scripts a recording is hidden")
	}
	b.visit("docs/review.html")
	if !chromium.See[bool](b.Page, "document.querySelector('.sidebar a[aria-current]').checkVisibility()") {
		t.Error("without scripts the list of documents is hidden")
	}
}
