// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"gatehouse.dev/test/chromium"
)

// A report is a page: its differences by policy, and its results with their decisions.
func TestReport(t *testing.T) {
	b := newBrowser(t)
	address := command(t, "--report=../../internal/review/impact/testdata/replay.json")
	b.As(width, height, "light", "no-preference")
	visit(b, address)
	b.Until("document.querySelectorAll('#results tbody tr').length === 9")
	b.Until("document.querySelector('#headline').textContent.startsWith('of 1,209 writes')")
	b.Until("document.querySelectorAll('details.group').length === 5")

	chromium.See[bool](b.Page, `(() => {
		const group = document.querySelector('#group');
		group.selectedIndex = 1;
		return group.dispatchEvent(new Event('change'));
	})()`)
	b.Until("document.querySelectorAll('#results tbody tr').length === 3")
	b.Until("document.querySelector('#count').textContent === '3 of 9 results'")

	chromium.See[bool](b.Page, "document.querySelector('#results button').click() || true")
	b.Until("document.querySelector('#request:not([hidden]) .step.Refused')")
	b.Until("document.querySelector('#request').textContent.includes('at most 3 replicas')")
	b.Press(kb.Escape)
	b.Until("document.querySelector('#request').hidden")
	b.quiet(address)
}

// A report fits a desk's screen and a phone's, whatever the names in it are: nothing scrolls sideways.
func TestReportFitsScreens(t *testing.T) {
	b := newBrowser(t)
	data, err := os.ReadFile("../../internal/review/impact/testdata/replay.json")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.NewReplacer(`"name": "`, `"name": "`+strings.Repeat("a-very-long-name.", 12),
		`"username": "`, `"username": "system:serviceaccount:`+strings.Repeat("n", 63)+":"+strings.Repeat("s", 200),
		`"namespace": "`, `"namespace": "`+strings.Repeat("n", 50),
		`"message": "`, `"message": "`+strings.Repeat("x", 300)).Replace(string(data))
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	address := command(t, "--report="+file)
	for _, screen := range []struct{ width, height int64 }{{1280, 800}, {390, 844}} {
		b.As(screen.width, screen.height, "light", "no-preference")
		visit(b, address)
		b.Until("document.querySelectorAll('#results tbody tr').length === 9")
		b.Until("[...document.querySelectorAll('#results td')].some((cell) => cell.textContent.includes('a-very-long-name'))")
		chromium.See[bool](b.Page, "document.querySelectorAll('details').forEach((group) => { group.open = true; }) || true")
		wide := chromium.See[string](b.Page, `[document.documentElement, ...document.querySelectorAll('body *')]
			.filter((e) => e.scrollWidth > e.clientWidth && (e === document.documentElement || ['auto', 'scroll'].includes(
				getComputedStyle(e).overflowX)))
			.map((e) => e.tagName + '.' + e.className + ' ' + e.scrollWidth + ' > ' + e.clientWidth).join(', ')`)
		if wide != "" {
			t.Errorf("%d pixels: it scrolls: %s", screen.width, wide)
		}
		if !chromium.See[bool](b.Page, `[...document.querySelectorAll('#results td:not(:empty)')].every((cell) =>
			cell.getBoundingClientRect().right <= innerWidth && cell.getBoundingClientRect().width > 0)`) {
			t.Errorf("%d pixels: a cell is outside", screen.width)
		}
	}
}
