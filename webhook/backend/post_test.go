// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/utils/ptr"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// upstream posts to the URL as kube-apiserver does.
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go, callHook
func upstream(ctx context.Context, t *testing.T, url string, caBundle []byte, timeout time.Duration) error {
	t.Helper()
	manager,
		err := webhook.NewClientManager([]schema.GroupVersion{admissionv1.SchemeGroupVersion}, admissionv1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := webhook.NewDefaultAuthenticationInfoResolver("")
	if err != nil {
		t.Fatal(err)
	}
	manager.SetAuthenticationInfoResolver(credentials)
	manager.SetServiceResolver(webhook.NewDefaultServiceResolver())
	client, err := manager.HookClient(webhook.ClientConfig{URL: url, CABundle: caBundle})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	question := &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "1"}}
	return client.Post().Body(question).Timeout(timeout).Do(ctx).Into(&admissionv1.AdmissionReview{})
}

// What a webhook is sent is what kube-apiserver sends, but that compression isn't asked for.
func TestRequest(t *testing.T) {
	leakFree(t)
	for _, protocol := range []string{"HTTP/2.0", "HTTP/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			var options []webhooktest.Option
			if protocol == "HTTP/1.1" {
				options = append(options, webhooktest.HTTP1())
			}
			var seen []string
			server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h := r.Header
				seen = append(seen, fmt.Sprint(r.Proto, r.Method, r.Host, r.RequestURI, h["Accept"], h["Content-Type"],
					h["User-Agent"]))
				if r.Proto != protocol {
					t.Errorf("spoke %s", r.Proto)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || r.ContentLength != int64(len(body)) {
					t.Errorf("body of %d bytes, Content-Length %d: %v", len(body), r.ContentLength, err)
				}
				if ours := len(seen) == 1; ours && h["Accept-Encoding"] != nil {
					t.Errorf("asked for compression: %q", h["Accept-Encoding"])
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{}}`)
			}), options...)
			answer, err := newClient(t, newPool(t, backend.Config{}),
				server.ClientConfig("/validate/")).Post(context.Background(), review, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{}}`; string(
				answer) != want {
				t.Errorf("answer %q, want %q", answer, want)
			}
			if err := upstream(context.Background(), t, server.URL("/validate/"), server.Authority.PEM(),
				10*time.Second); err != nil {
				t.Fatal(err)
			}
			if seen[0] != seen[1] {
				t.Errorf("sent     %s\nupstream %s", seen[0], seen[1])
			}
		})
	}
}

// The URL is joined as client-go joins it. Source: k8s.io/client-go/rest/request.go, Request.URL
func TestPath(t *testing.T) {
	leakFree(t)
	var seen []string
	server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.RequestURI)
		webhooktest.Allow().ServeHTTP(w, r)
	}))
	pool := newPool(t, backend.Config{})
	for _, path := range []string{"", "/", "/a", "/a/", "/a//b", "/a/../b", "/a%20b", "/a%2Fb", "/ä"} {
		seen = nil
		post(t, newClient(t, pool, server.ClientConfig(path)))
		if err := upstream(context.Background(), t, server.URL(path), server.Authority.PEM(),
			10*time.Second); err != nil {
			t.Fatal(err)
		}
		if seen[0] != seen[1] {
			t.Errorf("path %q: asked for %q, upstream for %q", path, seen[0], seen[1])
		}
	}
}

// The webhook is told how long the caller waits. Source: callHook, as above
func TestTimeoutIsTold(t *testing.T) {
	leakFree(t)
	queries := make(chan string, 1)
	server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries <- r.URL.RawQuery
		webhooktest.Allow().ServeHTTP(w, r)
	}))
	client := clientOf(t, server)
	for _, test := range []struct {
		deadline, timeout time.Duration
		want              string
	}{
		{0, 10 * time.Second, "timeout=10s"},
		{0, 30 * time.Second, "timeout=30s"},
		{34 * time.Second, 0, "timeout=34s"},
		{5 * time.Second, 10 * time.Second, "timeout=5s"},
		{10 * time.Second, 4500 * time.Millisecond, "timeout=5s"},
		{2 * time.Minute, 0, "timeout=2m0s"},
		{0, 0, ""},
	} {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if test.deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, test.deadline)
		}
		if _, err := client.Post(ctx, review, test.timeout); err != nil {
			t.Fatal(err)
		}
		cancel()
		if got := <-queries; got != test.want {
			t.Errorf("deadline in %v, timeout %v: told %q, want %q", test.deadline, test.timeout, got, test.want)
		}
	}
}

// A backend that is busy says when to come back. Source: k8s.io/client-go/rest/with_retry.go
func TestRetryAfter(t *testing.T) {
	leakFree(t)
	for _, test := range []struct {
		name, header string
		code, fails  int
		calls        int
		err          string
	}{
		{"too many requests", "0", 429, 2, 3, ""},
		{"unavailable", "0", 503, 2, 3, ""},
		{"a second later", "1", 503, 1, 2, ""},
		{"a client's error", "0", 400, 1, 1, "the server rejected our request for an unknown reason"},
		{"a date", "Fri, 01 Jan 2100 00:00:00 GMT", 503, 1, 1, "the server is currently unable to handle the request"},
		{"always", "0", 503, 100, 11, "the server is currently unable to handle the request"},
		// Upstream waits until the deadline, and has forgotten the answer then.
		{"after the deadline", "60", 503, 1, 1, "the server is currently unable to handle the request"},
		{"in 317 years", "10000000000", 503, 1, 1, "the server is currently unable to handle the request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var calls atomic.Int64
			server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if int(calls.Add(1)) <= test.fails {
					w.Header().Set("Retry-After", test.header)
					http.Error(w, "busy", test.code)
					return
				}
				webhooktest.Allow().ServeHTTP(w, r)
			}))
			_, err := clientOf(t, server).Post(context.Background(), review, 20*time.Second)
			if got := message(err); got != test.err {
				t.Errorf("error %q, want %q", got, test.err)
			}
			if server.Calls() != test.calls {
				t.Errorf("%d calls, want %d", server.Calls(), test.calls)
			}
		})
	}
}

func TestBadConfiguration(t *testing.T) {
	pool := newPool(t, backend.Config{})
	service := &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "svc"}
	for _, test := range []struct {
		name string
		cc   admissionregistrationv1.WebhookClientConfig
		want string
	}{
		{"nothing", admissionregistrationv1.WebhookClientConfig{},
			"webhook configuration must have either service or URL"},
		{"empty URL", admissionregistrationv1.WebhookClientConfig{URL: ptr.To("")},
			"webhook configuration must have either service or URL"},
		{"not a URL", admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://%")},
			`Unparsable URL: parse "https://%": invalid URL escape "%"`},
		{"not https", admissionregistrationv1.WebhookClientConfig{URL: ptr.To("http://u:secret@h/")},
			`webhook URL "http://u:xxxxx@h/": desired format: https://host[/path]`},
		{"no host", admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https:///p")},
			`webhook URL "https:///p": desired format: https://host[/path]`},
		{"bad caBundle", admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://h"), CABundle: []byte("x")},
			"unable to load root certificates: unable to parse bytes as PEM block"},
		{"no services", admissionregistrationv1.WebhookClientConfig{Service: service},
			"service ns/svc: there are no services to be resolved here, give the webhook's url"},
	} {
		if _, err := pool.Client(test.cc); message(err) != test.want {
			t.Errorf("%s: error %q, want %q", test.name, message(err), test.want)
		}
	}
	if _, err := backend.NewPool(backend.Config{KubeConfigFile: "/no/such/file"}); err == nil ||
		!strings.Contains(err.Error(), "kubeConfigFile: stat /no/such/file") {
		t.Errorf("error %v", err)
	}
}

// FuzzClient gives the pool URLs and bundles that nobody validated.
func FuzzClient(f *testing.F) {
	f.Add("https://127.0.0.1:8443/validate", "", []byte(nil))
	f.Add("https://[::1]:0/%2F?q#f", "../..", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add("https://ä.example/\x7f", "//", []byte("-----BEGIN CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, url, path string, caBundle []byte) {
		pool, err := backend.NewPool(backend.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Retain(nil)
		ended, cancel := context.WithCancel(context.Background())
		cancel() // the request is made, nothing is sent
		for _, cc := range []admissionregistrationv1.WebhookClientConfig{
			{URL: &url, CABundle: caBundle},
			{Service: &admissionregistrationv1.ServiceReference{Namespace: url, Name: path, Path: &path},
				CABundle: caBundle},
		} {
			client, err := pool.Client(cc)
			if err != nil {
				continue
			}
			if _, err := client.Post(ended, review, time.Second); err == nil {
				t.Errorf("a call that was given up before it began has succeeded")
			}
		}
	})
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
