// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// A report is a page: its differences by policy, and its results with their decisions.
func TestReport(t *testing.T) {
	b := newBrowser(t)
	address := command(t, "--report=../../internal/review/impact/testdata/replay.json")
	b.as(width, height, "light")
	visit(b, address)
	b.until("document.querySelectorAll('#results tbody tr').length === 9")
	b.until("document.querySelector('#headline').textContent.startsWith('of 1,209 writes')")
	b.until("document.querySelectorAll('details.group').length === 5")

	see[bool](b, `(() => {
		const group = document.querySelector('#group');
		group.selectedIndex = 1;
		return group.dispatchEvent(new Event('change'));
	})()`)
	b.until("document.querySelectorAll('#results tbody tr').length === 3")
	b.until("document.querySelector('#count').textContent === '3 of 9 results'")

	see[bool](b, "document.querySelector('#results button').click() || true")
	b.until("document.querySelector('#request:not([hidden]) .step.Refused')")
	b.until("document.querySelector('#request').textContent.includes('at most 3 replicas')")
	b.press(kb.Escape)
	b.until("document.querySelector('#request').hidden")
	b.quiet(address)
}
