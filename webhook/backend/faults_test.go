// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// Every fault has the words, and the status, that it has in kube-apiserver: upstream's client is
// given the same.
func TestFaultsInUpstreamsWords(t *testing.T) {
	leakFree(t)
	html := "<!DOCTYPE html><html><body>" + strings.Repeat("It doesn't work. ", 1000) + "</body></html>"
	for _, test := range []struct {
		name    string
		handler http.Handler
		want    string // in the error; what varies is not looked at
		code    int
	}{
		{"500", webhooktest.Status(500, "text/plain; charset=utf-8", "boom\n"),
			`an error on the server ("boom") has prevented the request from succeeding`, 500},
		{"500 with JSON", webhooktest.Status(500, "application/json", `{"a":1}`),
			`an error on the server ("unknown") has prevented the request from succeeding`, 500},
		{"502 with HTML", webhooktest.Status(502, "text/html", html), `an error on the server ("<!DOCTYPE html>`, 502},
		{"503", webhooktest.Status(503, "text/plain", "busy"), "the server is currently unable to handle the request",
			503},
		{"504", webhooktest.Status(504, "text/plain", "slow"),
			"the server was unable to return a response in the time allotted, but may still be processing the request",
			504},
		{"400", webhooktest.Status(400, "text/plain", "what?"), "the server rejected our request for an unknown reason",
			400},
		{"401", webhooktest.Status(401, "text/plain", "who?"),
			"the server has asked for the client to provide credentials", 401},
		{"403", webhooktest.Status(403, "text/plain", "not you"), "not you", 403},
		{"404", webhooktest.Status(404, "text/plain", "where?"), "the server could not find the requested resource",
			404},
		{"405", webhooktest.Status(405, "text/plain", ""),
			"the server does not allow this method on the requested resource", 405},
		{"415", webhooktest.Status(415, "text/plain", "no JSON"), "no JSON", 415},
		{"418", webhooktest.Status(418, "text/plain", "tea"),
			"the server responded with the status code 418 but did not return more information", 418},
		{"429", webhooktest.Status(429, "text/plain", "slower"),
			"the server has received too many requests and has asked us to try again later", 429},
		{"304", webhooktest.Status(304, "text/plain", ""),
			"the server responded with the status code 304 but did not return more information", 304},
		{"a Status", webhooktest.Status(500, "application/json",
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"because","code":409}`), "because", 409},
		{"a Status without version", webhooktest.Status(500, "text/plain",
			`{"kind":"Status","status":"Failure","message":"because"}`), "because", 0},
		{"a Status of version 2", webhooktest.Status(500, "text/plain",
			`{"kind":"Status","apiVersion":"v2","status":"Failure","message":"because"}`), "because", 0},
		{"a Status of a group", webhooktest.Status(500, "text/plain",
			`{"kind":"Status","apiVersion":"g/v1","status":"Failure","message":"because"}`), "because", 0},
		{"a status", webhooktest.Status(500, "text/plain",
			`{"kind":"status","apiVersion":"v1","status":"Failure","message":"because"}`), "an error on the server",
			500},
		{"a Kindless Status", webhooktest.Status(500, "text/plain",
			`{"apiVersion":"v1","status":"Failure","message":"because"}`), "an error on the server", 500},
		{"a Status of success", webhooktest.Status(500, "application/json",
			`{"kind":"Status","apiVersion":"v1","status":"Success"}`), "an error on the server", 500},
		{"nothing", webhooktest.Status(200, "text/plain", ""),
			"0-length response with status code: 200 and content type: text/plain", 0},
		{"no content", webhooktest.Status(204, "text/plain", ""),
			"0-length response with status code: 204 and content type: text/plain", 0},
		{"bad content type", webhooktest.Status(200, "text/", "x"), "Internal error occurred: mime: ", 500},
		{"closing mid-body", webhooktest.CloseMidBody(), "error when reading response body", 0},
		{"aborting", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			"Post ", 0},
		{"hanging", webhooktest.Hang(), "context deadline exceeded", 0},
		{"slow drip", webhooktest.Drip(50 * time.Millisecond),
			"unexpected error when reading response body. Please retry. Original error: context deadline exceeded", 0},
	} {
		for _, protocol := range []string{"h2", "http1"} {
			t.Run(test.name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				var options []webhooktest.Option
				if protocol == "http1" {
					options = append(options, webhooktest.HTTP1())
				}
				server := webhooktest.New(t, test.handler, options...)
				compare(t, server.URL("/v"), server.Authority.PEM(), test.want, test.code)
			})
		}
	}
}

// The same for what goes wrong before there is an answer.
func TestConnectionFaultsInUpstreamsWords(t *testing.T) {
	leakFree(t)
	other := webhooktest.NewAuthority(t)
	hour := time.Now().Add(time.Hour)
	for _, test := range []struct {
		name  string
		fault func(t *testing.T, server *webhooktest.Server) (address string)
		want  string
	}{
		{"refusing", func(t *testing.T, _ *webhooktest.Server) string { return webhooktest.Refusing(t) },
			"connect: connection refused"},
		{"silent", func(t *testing.T, _ *webhooktest.Server) string { return webhooktest.Silent(t) },
			"context deadline exceeded"},
		{"no TLS", func(t *testing.T, _ *webhooktest.Server) string { return webhooktest.Plaintext(t) },
			"http: server gave HTTP response to HTTPS client"},
		{"no such name", func(t *testing.T, _ *webhooktest.Server) string { return "nobody.invalid:443" },
			"dial tcp: lookup nobody.invalid"},
		{"expired", func(t *testing.T, s *webhooktest.Server) string {
			s.UseCertificate(s.Authority.Serving(time.Now().Add(-time.Minute), "127.0.0.1"))
			return s.Address()
		}, "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"},
		{"another name's", func(t *testing.T, s *webhooktest.Server) string {
			s.UseCertificate(s.Authority.Serving(hour, "example.com"))
			return s.Address()
		}, "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"},
		{"another authority's", func(t *testing.T, s *webhooktest.Server) string {
			s.UseCertificate(other.Serving(hour, "127.0.0.1"))
			return s.Address()
		}, "x509: certificate signed by unknown authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := webhooktest.New(t, webhooktest.Allow())
			compare(t, "https://"+test.fault(t, server)+"/v", server.Authority.PEM(), test.want, 0)
		})
	}
}

// A backend wants a client certificate and gets none. In TLS 1.3 that shows after the handshake,
// when upstream is already in the midst of its request, and tells what happens to that; with
// HTTP/1.1 we are, too.
func TestClientCertificateWanted(t *testing.T) {
	leakFree(t)
	server := webhooktest.New(t, webhooktest.Allow(), webhooktest.WantClientCertificate())
	_, err := clientOf(t, server).Post(context.Background(), review, 20*time.Second)
	if want := `Post "` + server.URL("/") +
		`?timeout=20s": remote error: tls: certificate required`; message(err) != want {
		t.Errorf("error %q, want %q", message(err), want)
	}
	server = webhooktest.New(t, webhooktest.Allow(), webhooktest.WantClientCertificate(), webhooktest.HTTP1())
	if _, err := clientOf(t, server).Post(context.Background(), review, 20*time.Second); err == nil {
		t.Error("no error")
	}
}

// compare calls url with Post and as upstream does, and wants the same from both.
func compare(t *testing.T, url string, caBundle []byte, want string, code int) {
	t.Helper()
	cc := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	client := newClient(t, newPool(t, backend.Config{}), cc)
	timeout := 20 * time.Second
	if strings.HasSuffix(want, "deadline exceeded") {
		timeout = 2 * time.Second // long enough for all but what is to run into it
	}
	_, err := client.Post(context.Background(), review, timeout)
	if err == nil {
		t.Fatal("no error")
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want %q", err, want)
	}
	if got := statusCode(err); got != code {
		t.Errorf("status code %d, want %d", got, code)
	}
	theirs := upstream(context.Background(), t, url, caBundle, timeout)
	if theirs == nil {
		t.Fatal("upstream sees no error")
	}
	if got, want := stable(err), stable(theirs); got != want {
		t.Errorf("error    %s\nupstream %s", got, want)
	}
	if got, want := statusCode(err), statusCode(theirs); got != want {
		t.Errorf("status code %d, upstream %d", got, want)
	}
}

// stable is the error without what differs from call to call.
func stable(err error) string {
	s := regexp.MustCompile(`\S+:\d+->`).ReplaceAllString(err.Error(), "")
	s = regexp.MustCompile(`current time \S+`).ReplaceAllString(s, "current time …")
	return regexp.MustCompile(`stream ID \d+`).ReplaceAllString(s, "stream ID …")
}

// Redirects are not followed, wherever they lead. Upstream follows them (CVE-2020-8561).
func TestRedirect(t *testing.T) {
	leakFree(t)
	target := webhooktest.New(t, webhooktest.Allow())
	server := webhooktest.New(t, webhooktest.Redirect(target.URL("/")), webhooktest.WithAuthority(target.Authority))
	_, err := clientOf(t, server).Post(context.Background(), review, 10*time.Second)
	if want := "the server responded with the status code 307 but did not return more information"; message(
		err) != want {
		t.Errorf("error %q, want %q", message(err), want)
	}
	if statusCode(err) != http.StatusTemporaryRedirect {
		t.Errorf("status code %d", statusCode(err))
	}
	if target.Calls() != 0 {
		t.Error("the redirect was followed")
	}
}

// An answer is refused while it is read, so that what is held of it is bounded.
func TestTooLarge(t *testing.T) {
	leakFree(t)
	for _, test := range []struct {
		name    string
		handler http.Handler
		want    string
	}{
		{"endless", webhooktest.Endless(), "the response body is too large: limit is 3145728"},
		{"a byte too long", sized(backend.MaxAnswer + 1), "the response body is too large: limit is 3145728"},
		{"as long as may be", sized(backend.MaxAnswer), ""},
		{"an endless error", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			webhooktest.Endless().ServeHTTP(w, r)
		}), `an error on the server ("unknown") has prevented the request from succeeding`},
	} {
		for _, protocol := range []string{"h2", "http1"} {
			t.Run(test.name+"/"+protocol, func(t *testing.T) {
				var options []webhooktest.Option
				if protocol == "http1" {
					options = append(options, webhooktest.HTTP1())
				}
				server := webhooktest.New(t, test.handler, options...)
				client := clientOf(t, server)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := client.Post(context.Background(), review, 30*time.Second)
				runtime.ReadMemStats(&after)
				if message(err) != test.want && !strings.HasPrefix(message(err),
					strings.TrimSuffix(test.want, `("unknown") has prevented the request from succeeding`)) {
					t.Errorf("error %q, want %q", message(err), test.want)
				}
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
					t.Errorf("allocated %d MiB for it", allocated>>20)
				}
				server.SetHandler(webhooktest.Allow())
				post(t, client) // the next one is answered
			})
		}
	}
}

// sized answers with n bytes.
func sized(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, io.LimitReader(blanks{}, int64(n)))
	})
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Each caller has a deadline of its own, also while all wait for the same connection to be made.
func TestOwnDeadlineWhileDialing(t *testing.T) {
	leakFree(t)
	url := "https://" + webhooktest.Silent(t)
	cc := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhooktest.NewAuthority(t).PEM()}
	client := newClient(t, newPool(t, backend.Config{}), cc)

	patient, giveUp := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := client.Post(patient, review, 0)
		ended <- err
	}()
	began := time.Now()
	_, err := client.Post(context.Background(), review, 100*time.Millisecond)
	if !strings.HasSuffix(message(err), ": context deadline exceeded") {
		t.Errorf("error %q", message(err))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	select {
	case err := <-ended:
		t.Errorf("the one who could wait didn't: %v", err)
	default:
	}
	giveUp()
	if err := <-ended; !strings.HasSuffix(message(err), ": context canceled") {
		t.Errorf("error %q", message(err))
	}
}

// A server that closes each connection at once, and then one that is well.
func TestClosingInHandshake(t *testing.T) {
	leakFree(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	url := "https://" + listener.Addr().String()
	cc := admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhooktest.NewAuthority(t).PEM()}
	_, err = newClient(t, newPool(t, backend.Config{}), cc).Post(context.Background(), review, 10*time.Second)
	if m := message(err); !strings.HasSuffix(m, ": EOF") && !strings.HasSuffix(m, "connection reset by peer") {
		t.Errorf("error %q", m)
	}
}
