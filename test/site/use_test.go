// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSearch finds pages by what people look for, with the keyboard, from a server and from files.
func TestSearch(t *testing.T) {
	for name, b := range map[string]*browser{"served": served(t), "files": open(t, fileURL(t))} {
		b.as(1280, 900, "light", "reduce")
		for query, want := range map[string]string{
			"namespace stuck":      "plugins/namespacelifecycle.html",
			"--feature-gates":      "docs/serve-flags.html",
			"decision changedBy":   "docs/api-fields.html",
			"podsecurity":          "plugins/podsecurity.html",
			"pod security":         "plugins/podsecurity.html",
			"--decision-max-count": "docs/serve-flags.html",
			"own-pods":             "docs/lint.html",
			"apiserver_admission_webhook_fail_open_count": "docs/metrics.html",
			"exit code": "docs/exit-codes.html",
			"eks audit": "docs/audit-logs.html",
		} {
			b.visit("main/plugins/priority.html")
			b.press("/")
			if !see[bool](b, "document.activeElement.id === 'query'") {
				t.Fatal("the key / doesn't lead to the search")
			}
			b.press(strings.Split(query, "")...)
			b.until("document.querySelector('#results').dataset.query === " + quoted(query))
			found := see[[]string](b, "[...document.querySelectorAll('#results a')].map(a => a.getAttribute('href'))")
			if !strings.Contains(strings.Join(found, " ")+" ", want) {
				t.Errorf("%s: the search for %s finds %q, want %s", name, query, found, want)
			}
		}
		b.shoot("search-" + name)
		b.press(kb.ArrowDown, kb.ArrowUp, kb.Enter)
		b.until("!location.pathname.endsWith('plugins/priority.html') && document.readyState === 'complete'")
		b.press("/")
		b.press(strings.Split("xyzzy quux", "")...)
		b.until("document.querySelector('.none').textContent.includes('xyzzy quux')")
		b.press(kb.Escape)
		b.until("document.querySelector('.results').hidden")
	}
}

// TestVersions goes from one version to another by the list, without a server too.
func TestVersions(t *testing.T) {
	for _, b := range []*browser{served(t), open(t, fileURL(t))} {
		b.as(1280, 900, "light", "reduce")
		choose := func(directory string) {
			t.Helper()
			see[any](b, "{ const s = document.querySelector('.versions'); s.value = "+quoted(directory)+
				"; s.dispatchEvent(new Event('change')); }")
		}
		at := func(path, version string) {
			t.Helper()
			b.until("location.href === " + quoted(b.site+path) + " && document.readyState === 'complete'")
			if got := see[string](b, "document.querySelector('.versions').selectedOptions[0].textContent"); got != version {
				t.Errorf("%s is shown as version %s, want %s", path, got, version)
			}
		}
		b.visit("docs/lint.html")
		at("docs/lint.html", "v0.2.0")
		if !see[bool](b, "document.querySelector('.notice').hidden") {
			t.Error("the newest version has a notice")
		}
		choose("main/")
		at("main/docs/lint.html", "main")
		if got := see[string](b, "document.querySelector('.notice').innerText"); !strings.Contains(got, "newest release, v0.2.0") {
			t.Errorf("the notice of main is %q", got)
		}
		choose("v0.1/")
		at("v0.1/docs/lint.html", "v0.1.0")
		see[any](b, "document.querySelector('.notice a').click()")
		at("docs/lint.html", "v0.2.0")
	}
}

// TestTheme has the page be dark as the system is, or as its reader chose.
func TestTheme(t *testing.T) {
	b := served(t)
	background := func() string { return see[string](b, "getComputedStyle(document.body).backgroundColor") }
	b.as(1280, 900, "light", "reduce")
	b.visit("index.html")
	light := background()
	b.as(1280, 900, "dark", "reduce")
	dark := background()
	if light == dark {
		t.Errorf("the page is as %s in the dark", light)
	}
	see[any](b, "document.querySelector('button.theme').click()")
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
	b.as(390, 844, "light", "reduce")
	b.visit("docs/review.html")
	const shown = "document.querySelector('.sidebar').checkVisibility()"
	if see[bool](b, shown) {
		t.Error("the menu is open from the beginning")
	}
	see[any](b, "document.querySelector('button.menu').click()")
	if !see[bool](b, shown) {
		t.Error("the menu doesn't open")
	}
	b.shoot("menu-phone-light")
	b.press(kb.Escape)
	if see[bool](b, shown) || !see[bool](b, "document.activeElement.matches('button.menu')") {
		t.Error("the key Escape doesn't close the menu")
	}
	b.visit("index.html")
	if !see[bool](b, "[...document.querySelectorAll('nav.main a')].every(e => e.checkVisibility())") {
		t.Error("the first page, which has no menu, doesn't show its links")
	}
}

// TestCopy copies the commands of a block, without prompts and what they print.
func TestCopy(t *testing.T) {
	b := served(t)
	b.as(1280, 900, "light", "reduce")
	b.visit("docs/metrics.html")
	see[any](b, `{
		navigator.clipboard.writeText = async text => { window.copied = text; };
		[...document.querySelectorAll(".code")].find(c => c.textContent.includes("pod/web created")).querySelector(".copy").click();
	}`)
	b.until("window.copied")
	got := see[string](b, "window.copied")
	if !strings.HasPrefix(got, "kubectl run web --image=nginx\nkubectl get --raw=/metrics") || strings.Contains(got, "created") {
		t.Errorf("copied %q", got)
	}
	b.as(390, 844, "light", "reduce")
	b.visit("docs/schemas.html")
	const above = `[...document.querySelectorAll(".code")].every(c => c.querySelector(".copy").getBoundingClientRect().bottom <=
		c.querySelector("code").getBoundingClientRect().top)`
	if !see[bool](b, above) {
		t.Error("a button covers the beginning of its block")
	}
}

// TestRecording has the recordings play, be shown at once on phones and to readers who mind motion, and be there
// without scripts.
func TestRecording(t *testing.T) {
	b := served(t)
	const last = "getComputedStyle([...document.querySelectorAll('.terminal:not([hidden]) .line')].at(-1)).opacity"
	b.as(1280, 900, "light", "no-preference")
	b.visit("index.html")
	if got := see[string](b, last); got != "0" {
		t.Errorf("the last line is there from the beginning: its opacity is %s", got)
	}
	b.until(last + " === '1'")
	see[any](b, "document.querySelector('[data-shows=why]').click()")
	b.until("document.querySelector('#why').checkVisibility() && !document.querySelector('#review').checkVisibility()")
	b.until(last + " === '1'")
	b.shoot("landing-why")

	b.as(1280, 900, "light", "reduce")
	b.visit("index.html")
	if got := see[string](b, last); got != "1" {
		t.Errorf("with reduced motion the last line's opacity is %s", got)
	}
	b.as(390, 844, "light", "no-preference")
	b.visit("index.html")
	if got := see[string](b, last); got != "1" || see[bool](b, "document.querySelector('.replay').checkVisibility()") {
		t.Errorf("on a phone the last line's opacity is %s, or there is a button that plays it again", got)
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.as(390, 844, "light", "no-preference")
	b.visit("index.html")
	if !see[bool](b, "[...document.querySelectorAll('.terminal')].every(e => e.checkVisibility())") {
		t.Error("without scripts a recording is hidden")
	}
	b.visit("docs/review.html")
	if !see[bool](b, "document.querySelector('.sidebar a[aria-current]').checkVisibility()") {
		t.Error("without scripts the list of documents is hidden")
	}
}
