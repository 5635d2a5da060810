// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
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
