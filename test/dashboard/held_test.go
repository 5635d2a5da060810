// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/servertest"
)

// held sees to it that the first rows are there while the server has sent half of its list, and all
// rows, each once, in the end: those that came meanwhile, too, and none that have gone.
func held(t *testing.T, b *browser, cluster *servertest.Cluster) {
	t.Helper()
	others := make(chan struct{})
	address := command(t, "--kubeconfig="+slowly(t, cluster, others))
	visit(b, address+"#leases=shown")
	b.Until("document.querySelector('#list .row')")
	write(t, cluster, 80)
	if n := chromium.See[int](b.Page, "Number(document.querySelector('#list .row').ariaSetSize)"); n == 0 || n >= many*9/10 {
		t.Errorf("there are %d rows while the rest of the list isn't there", n)
	}
	close(others)
	all, err := cluster.Dynamic.Resource(v1alpha1.Decisions).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newest := all.Items[len(all.Items)-1]
	b.Until("document.querySelector('#list .row[data-id=" + chromium.Quoted(newest.GetNamespace()+"/"+newest.GetName()) + "]')")
	b.Until(fmt.Sprintf("Number(document.querySelector('#list .row').ariaSetSize) === %d", len(all.Items)))
	b.quiet(address)
}

// slowly is a kubeconfig that leads to the server by a proxy, which has the second half of each
// list of decisions wait.
func slowly(t *testing.T, cluster *servertest.Cluster, until <-chan struct{}) string {
	t.Helper()
	transport, err := rest.TransportFor(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, "/decisions") || r.Request.URL.Query().Has("watch") {
				return nil
			}
			whole, err := io.ReadAll(r.Body)
			r.Body.Close()
			half := len(whole) / 2
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:half]),
				waiting{until, r.Request.Context().Done()}, bytes.NewReader(whole[half:])))
			return err
		},
	})
	t.Cleanup(proxy.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: slow, cluster: {server: %q}}]
contexts: [{name: slow, context: {cluster: slow, user: ""}}]
current-context: slow
`, proxy.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// waiting is an empty reader that ends once one of the two has.
type waiting struct{ until, gone <-chan struct{} }

func (w waiting) Read([]byte) (int, error) {
	select {
	case <-w.until:
	case <-w.gone:
	}
	return 0, io.EOF
}
