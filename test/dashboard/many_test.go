package dashboard_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chromedp/chromedp"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/servertest"
)

// many is as many decisions as a server keeps by default.
const many = 10_000

// crowded is a page over a server that has as many decisions as it keeps, of creations of pods.
func crowded(t testing.TB) (*browser, string) {
	t.Helper()
	b := newBrowser(t)
	cluster := servertest.Start(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	var writers errgroup.Group
	for range 8 {
		writers.Go(func() error {
			for range many / 8 {
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
	address := command(t, "--kubeconfig="+cluster.Kubeconfig)
	b.as(width, height, "light")
	visit(b, address)
	b.until(fmt.Sprintf("document.querySelector('#list .row')?.ariaSetSize >= %d", many*9/10))
	return b, address
}

// visit opens an address, afresh.
func visit(b *browser, address string) {
	b.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
}

// However many decisions there are, the page has as many rows as fit on the screen, wherever one is
// in the list, and its end can be reached.
func TestManyDecisions(t *testing.T) {
	b, address := crowded(t)
	const fit = 60
	for _, part := range []string{"0.3", "0.7", "1", "0"} {
		see[any](b, "{const l = document.querySelector('#list'); l.scrollTop = l.scrollHeight * "+part+"}")
		b.until("(() => { const l = document.querySelector('#list'), f = l.getBoundingClientRect();" +
			"return document.elementsFromPoint(f.left + 50, f.bottom - 40).some(e => e.matches('.row')) })()")
		if n := see[int](b, "document.querySelectorAll('#list .row').length"); n > fit {
			t.Errorf("at %s of the list there are %d rows in the document", part, n)
		}
	}
	if n := see[int](b, "document.querySelectorAll('*').length"); n > 3000 {
		t.Errorf("the document has %d elements", n)
	}
	see[any](b, "document.querySelector('#list').focus()")
	b.press("G")
	b.until("document.querySelector('.row.active')?.ariaPosInSet === document.querySelector('.row').ariaSetSize")
	b.quiet(address)
}

// BenchmarkPage has how long a page takes to show the first rows and all of them, from when it is
// asked for, and how long the longest frame and the median one take while the whole list is
// scrolled through.
func BenchmarkPage(b *testing.B) {
	page, address := crowded(b)
	var first, all, longest, median float64
	for b.Loop() {
		visit(page, address)
		page.until("performance.getEntriesByName('ready').length && performance.getEntriesByName('first').length")
		first = max(first, see[float64](page, "performance.getEntriesByName('first')[0].startTime"))
		all = max(all, see[float64](page, "performance.getEntriesByName('ready')[0].startTime"))
		see[any](page, `window.frames_ = []; {
			const list = document.querySelector('#list'), step = list.scrollHeight / 120;
			let last = performance.now();
			requestAnimationFrame(function next(now) {
				frames_.push(now - last);
				last = now;
				list.scrollTop += step;
				if (frames_.length < 120) requestAnimationFrame(next);
			});
		}`)
		page.until("frames_.length === 120")
		longest = max(longest, see[float64](page, "Math.max(...frames_)"))
		median = max(median, see[float64](page, "frames_.sort((a, b) => a - b)[60]"))
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
