// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/servertest"
)

// many is as many decisions as a server keeps by default.
const many = 10_000

// crowded is a page over a server that has as many decisions as it keeps, of creations of pods.
func crowded(t testing.TB) (*browser, string, *servertest.Cluster) {
	t.Helper()
	b := newBrowser(t)
	cluster := servertest.Start(t)
	write(t, cluster, many)
	began := time.Now()
	address := command(t, "--kubeconfig="+cluster.Kubeconfig)
	b.As(width, height, "light", "no-preference")
	visit(b, address+"#leases=shown")
	b.Until("performance.getEntriesByName('first').length")
	first := time.Since(began)
	b.Until(fmt.Sprintf("document.querySelector('#list .row')?.ariaSetSize >= %d", many*9/10))
	t.Logf("from the command's start it takes %v to the first rows, %v to all", first.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	return b, address, cluster
}

// write creates pods, n of them, of which nothing is kept but the decisions.
func write(t testing.TB, cluster *servertest.Cluster, n int) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	var writers errgroup.Group
	for range 8 {
		pod := pod.DeepCopy() // to encode it is to write its kind into it
		writers.Go(func() error {
			for range n / 8 {
				if _, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), pod,
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
}

// visit opens an address, afresh.
func visit(b *browser, address string) {
	b.Helper()
	b.Do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
}

// However many decisions there are, a page gets them by one request, and has as many rows as fit on
// the screen, wherever one is in the list: no others are made while it is scrolled. How long
// anything takes is told, and not judged: it depends on the machine.
func TestManyDecisions(t *testing.T) {
	b, address, cluster := crowded(t)
	const fit = 60
	for _, part := range []string{"0.3", "0.7", "1", "0"} {
		chromium.See[any](b.Page, "{const l = document.querySelector('#list'); l.scrollTop = l.scrollHeight * "+part+"}")
		b.Until("(() => { const l = document.querySelector('#list'), f = l.getBoundingClientRect();" +
			"return document.elementsFromPoint(f.left + 50, f.bottom - 40).some(e => e.matches('.row')) })()")
		if n := chromium.See[int](b.Page, "document.querySelectorAll('#list .row').length"); n > fit {
			t.Errorf("at %s of the list there are %d rows in the document", part, n)
		}
	}
	if n := chromium.See[int](b.Page, "document.querySelectorAll('*').length"); n > 3000 {
		t.Errorf("the document has %d elements", n)
	}
	chromium.See[any](b.Page, "document.querySelector('#list').focus()")
	b.Press("G")
	b.Until("document.querySelector('.row.active')?.ariaPosInSet === document.querySelector('.row').ariaSetSize")

	b.asked() // and forgotten
	visit(b, address+"#leases=shown")
	b.Until(ready)
	observe(b)
	t.Logf("a page paints after %.0f ms, has the first rows after %.0f ms, all of them after %.0f ms",
		chromium.See[float64](b.Page, "performance.getEntriesByName('first-contentful-paint')[0].startTime"),
		chromium.See[float64](b.Page, "performance.getEntriesByName('first')[0].startTime"),
		chromium.See[float64](b.Page, "performance.getEntriesByName('ready')[0].startTime"))
	busy(b, "while it loads")

	longest, median := scroll(b)
	t.Logf("while it is scrolled through, the longest frame takes %.0f ms, the median one %.0f ms", longest, median)
	busy(b, "while it is scrolled through")
	if n := chromium.See[int](b.Page, "made_"); n > fit {
		t.Errorf("while it was scrolled through, %d elements were made", n)
	}

	b.Press("/", "w", "e", "b", "-", "a")
	b.Until("location.hash.includes('q=web-a') && !document.querySelector('#clear').hidden && " +
		"document.querySelector('#count').textContent.includes('of')")
	chromium.See[any](b.Page, "document.querySelector('#verdicts [value=Changed]').click()")
	b.Until("location.hash.includes('verdict=Changed')")
	busy(b, "while it is filtered")
	b.Press(kb.Escape, "x")
	b.Until("document.querySelector('#clear').hidden")

	for view, key := range map[string]string{"chain": "2", "parts": "3"} {
		b.Press(key)
		b.Until("document.querySelector('#" + view + "').innerText")
		busy(b, "in the view "+view)
	}
	b.Press("1")
	const more = 800
	const middle = "(() => { const f = document.querySelector('#list').getBoundingClientRect();" +
		"return document.elementsFromPoint(f.left + 50, f.top + f.height / 2).find(e => e.matches('.row')) })()"
	b.Until("document.querySelector('#list').checkVisibility()")
	chromium.See[any](b.Page, "{const l = document.querySelector('#list'); l.scrollTop = l.scrollHeight / 2}")
	b.Until(middle + "?.ariaPosInSet > 1000")
	id, at := chromium.See[string](b.Page, middle+".dataset.id"), chromium.See[int](b.Page, "Number("+middle+".ariaPosInSet)")
	write(t, cluster, more)
	b.Until(fmt.Sprintf("document.querySelector('[data-id=%s]')?.ariaPosInSet >= %d", chromium.Quoted(id), at+more))
	busy(b, fmt.Sprintf("while %d requests come", more))
	if now := chromium.See[string](b.Page, middle+".dataset.id"); now != id {
		t.Errorf("what is on the screen has moved from %s to %s", id, now)
	}

	asked := b.asked()
	if asked["/events"] != 1 {
		t.Errorf("the page asked %d times for all requests", asked["/events"])
	}
	for path, n := range asked {
		if strings.HasPrefix(path, "/decision/") || n > 1 {
			t.Errorf("the page asked %d times for %s", n, path)
		}
	}
	b.quiet(address)
	held(t, b, cluster)
}

// ready is true of a page that has all rows, and knows when it began to paint: it is told that later.
const ready = "performance.getEntriesByName('ready').length && performance.getEntriesByName('first').length && " +
	"performance.getEntriesByName('first-contentful-paint').length && document.querySelector('#list .row')"

// observe begins to count what keeps the page busy, from its beginning, and elements that are made
// in the list.
func observe(b *browser) {
	b.Helper()
	chromium.See[any](b.Page, `{
		window.long_ = [];
		window.made_ = 0;
		window.slow_ = [];
		new PerformanceObserver((list) => long_.push(...list.getEntries().map((e) => e.duration)))
			.observe({ type: "longtask", buffered: true });
		new PerformanceObserver((list) => slow_.push(...list.getEntries().map((e) => e.duration)))
			.observe({ type: "event", durationThreshold: 16 });
		new MutationObserver((list) => {
			for (const change of list) for (const node of change.addedNodes) made_ += node.nodeType === Node.ELEMENT_NODE;
		}).observe(document.querySelector("#list"), { childList: true, subtree: true });
	}`)
}

// busy tells what kept the page busy since it was asked last: tasks of more than 50 ms, and how
// long the slowest answer to a key or a click took.
func busy(b *browser, when string) {
	b.Helper()
	chromium.See[any](b.Page, "window.drawn_ = false; "+
		"requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { drawn_ = true })))")
	b.Until("drawn_")
	long, slow := chromium.See[[]float64](b.Page, "long_.splice(0)"), chromium.See[[]float64](b.Page, "slow_.splice(0)")
	text := fmt.Sprintf("%s: %d tasks of more than 50 ms", when, len(long))
	if len(long) > 0 {
		text += fmt.Sprintf(", the longest of %.0f ms", slices.Max(long))
	}
	if len(slow) > 0 {
		text += fmt.Sprintf("; the slowest answer to a key or a click took %.0f ms", slices.Max(slow))
	}
	b.Log(text)
}

// scroll scrolls through the whole list, and is how many milliseconds the longest frame and the
// median one took.
func scroll(b *browser) (longest, median float64) {
	b.Helper()
	chromium.See[any](b.Page, `window.frames_ = []; {
		const list = document.querySelector('#list'), step = list.scrollHeight / 120;
		let last = performance.now();
		requestAnimationFrame(function next(now) {
			frames_.push(now - last);
			last = now;
			list.scrollTop += step;
			if (frames_.length < 120) requestAnimationFrame(next);
		});
	}`)
	b.Until("frames_.length === 120")
	frames := chromium.See[[]float64](b.Page, "frames_.sort((a, b) => a - b)")
	return frames[119], frames[60]
}

// BenchmarkPage has how long a page takes to show the first rows and all of them, from when it is
// asked for, and how long the longest frame and the median one take while the whole list is
// scrolled through.
func BenchmarkPage(b *testing.B) {
	page, address, _ := crowded(b)
	var first, all, longest, median float64
	for b.Loop() {
		visit(page, address)
		page.Until(ready)
		first = max(first, chromium.See[float64](page.Page, "performance.getEntriesByName('first')[0].startTime"))
		all = max(all, chromium.See[float64](page.Page, "performance.getEntriesByName('ready')[0].startTime"))
		l, m := scroll(page)
		longest, median = max(longest, l), max(median, m)
	}
	b.ReportMetric(first, "ms-to-first-rows")
	b.ReportMetric(all, "ms-to-all-rows")
	b.ReportMetric(longest, "ms-longest-frame")
	b.ReportMetric(median, "ms-median-frame")
}

// get is a decision of the server, by its name.
func get(t *testing.T, cluster *servertest.Cluster, namespace, name string, into *v1alpha1.Decision) {
	t.Helper()
	found, err := cluster.Dynamic.Resource(v1alpha1.Decisions).Namespace(namespace).Get(t.Context(), name,
		metav1.GetOptions{})
	if err == nil {
		var encoded []byte
		if encoded, err = found.MarshalJSON(); err == nil {
			err = json.Unmarshal(encoded, into)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
