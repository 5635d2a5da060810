// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
)

// Where the environment names a proxy, it is told the name of a URL, and the address of a service's
// endpoint. NO_PROXY is heeded for both the name and the address of a service.
//
// Source: k8s.io/apiserver/pkg/util/webhook/client.go#resolvingRoundTripper.RoundTrip 6ab4472b
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
	direct := "direct.example" // the host of NO_PROXY
	before := proxyFor
	proxyFor = func(r *http.Request) (*url.URL, error) {
		if r.URL.Hostname() == direct {
			return nil, nil
		}
		return at, nil
	}
	t.Cleanup(func() { proxyFor = before })

	host, port, err := net.SplitHostPort(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := services.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 443}}}}); err != nil {
		t.Fatal(err)
	}
	pool, err := NewPool(Config{
		Services: corev1listers.NewServiceLister(services),
		EndpointSlices: endpoints{{
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}}},
			Ports:     []discoveryv1.EndpointPort{{Name: new(string), Port: new(int32(number))}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Retain(nil) })
	link := "https://backend.example/"
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
		Namespace: "ns", Name: "svc"}}
	for _, test := range []struct {
		cc     admissionregistrationv1.WebhookClientConfig
		direct string
		want   string // "": the proxy isn't asked
	}{
		{admissionregistrationv1.WebhookClientConfig{URL: &link}, "direct.example", "CONNECT backend.example:443"},
		{service, "direct.example", "CONNECT " + server.Address()},
		{service, host, ""},
		{service, "svc.ns.svc", ""},
	} {
		direct = test.direct
		asked.Store("")
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
			t.Errorf("with NO_PROXY=%s the proxy was asked %q, want %q", test.direct, asked.Load(), test.want)
		}
	}
	direct = "direct.example"
	link = "https://direct.example"
	client, err := pool.Client(admissionregistrationv1.WebhookClientConfig{URL: &link})
	if err != nil {
		t.Fatal(err)
	}
	if client.conns.proxied {
		t.Error("NO_PROXY isn't heeded")
	}
}

// endpoints are those of every service.
type endpoints []*discoveryv1.EndpointSlice

func (e endpoints) GetEndpointSlices(string, string) ([]*discoveryv1.EndpointSlice, error) {
	return e, nil
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
