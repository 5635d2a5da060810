package backend

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"gatehouse.dev/internal/webhooktest"
)

// Where the environment names a proxy, it is told the webhook's name, and finds the way. As
// client-go's transport does.
func TestProxy(t *testing.T) {
	server := webhooktest.New(t, webhooktest.Allow(), webhooktest.Names("svc.ns.svc", "backend.example"))
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.Host)
		there, err := net.Dial("tcp", server.Address())
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		here, sent, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(there, sent); _ = there.Close() }()
		_, _ = io.Copy(here, there)
	}))
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	before := proxyFor
	proxyFor = func(r *http.Request) (*url.URL, error) {
		if r.URL.Hostname() == "direct.example" {
			return nil, nil
		}
		return at, nil
	}
	t.Cleanup(func() { proxyFor = before })

	pool, err := NewPool(Config{
		Services:       corev1listers.NewServiceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)),
		EndpointSlices: noSlices{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Retain(nil) })
	link := "https://backend.example/"
	for _, test := range []struct {
		cc   admissionregistrationv1.WebhookClientConfig
		want string
	}{
		{admissionregistrationv1.WebhookClientConfig{URL: &link}, "CONNECT backend.example:443"},
		{admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "ns",
			Name: "svc"}}, "CONNECT svc.ns.svc:443"},
	} {
		test.cc.CABundle = server.Authority.PEM()
		client, err := pool.Client(test.cc)
		if err != nil {
			t.Fatal(err)
		}
		review := [][]byte{[]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",` +
			`"request":{"uid":"1"}}`)}
		if _, err := client.Post(context.Background(), review, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if asked.Load() != test.want {
			t.Errorf("the proxy was asked %v, want %s", asked.Load(), test.want)
		}
	}
	direct := "https://direct.example"
	client, err := pool.Client(admissionregistrationv1.WebhookClientConfig{URL: &direct})
	if err != nil {
		t.Fatal(err)
	}
	if client.conns.proxied {
		t.Error("NO_PROXY isn't heeded")
	}
}

type noSlices struct{}

func (noSlices) GetEndpointSlices(string, string) ([]*discoveryv1.EndpointSlice, error) {
	return nil, nil
}

// FuzzCheck gives check what a webhook may say instead of an answer.
func FuzzCheck(f *testing.F) {
	f.Add(200, "application/json", "", []byte("{}"))
	f.Add(500, "text/html; charset=utf-8", "1",
		[]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":-1}`))
	f.Add(429, "text/", "-99999999999", []byte("\xff\x00"))
	f.Add(302, "", "99999999999999999999", []byte(nil))
	f.Fuzz(func(t *testing.T, code int, contentType, after string, body []byte) {
		resp := &http.Response{StatusCode: code,
			Header: http.Header{"Content-Type": {contentType}, "Retry-After": {after}}}
		err := check(resp, body)
		if err == nil && (!succeeded(resp) || len(body) == 0) {
			t.Errorf("status %d with %d bytes is taken for an answer", code, len(body))
		}
		if err != nil {
			_ = err.Error()
		}
		if wait, _ := retryAfter(resp); wait < 0 {
			t.Errorf("Retry-After %q: %v", after, wait)
		}
	})
}
