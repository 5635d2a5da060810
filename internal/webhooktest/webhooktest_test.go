// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooktest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

const question = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u1",` +
	`"operation":"CREATE"}}`

// client trusts the server, and shows it the certificate if there is one.
func client(t *testing.T, s *Server, certificate ...tls.Certificate) *http.Client {
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: s.Authority.pool(), Certificates: certificate},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ask returns the status and the body of an answer. The error is that of the call, or of reading
// its body.
func ask(c *http.Client, url string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(question))
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	return resp.StatusCode, string(body), err
}

func TestAnswers(t *testing.T) {
	const frame = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"`
	for _, test := range []struct {
		name    string
		handler http.Handler
		status  int
		body    string // what it begins with
	}{
		{"Allow", Allow(), 200, frame + `,"response":{"uid":"u1","allowed":true}}`},
		{"Deny", Deny(418, "no"), 200, frame +
			`,"response":{"uid":"u1","allowed":false,"status":{"metadata":{},"message":"no","code":418}}}`},
		{"Patch", Patch("[]"), 200, frame +
			`,"response":{"uid":"u1","allowed":true,"patch":"W10=","patchType":"JSONPatch"}}`},
		{"Warnings", Warnings(2), 200, frame +
			`,"response":{"uid":"u1","allowed":true,"warnings":["warning 0","warning 1"]}}`},
		{"WrongUID", WrongUID(), 200, frame + `,"response":{"uid":"wrong","allowed":true}}`},
		{"NoResponse", NoResponse(), 200, frame + `}`},
		{"Truncated", Truncated(), 200,
			`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":"u1","allow`},
		{"Status", Status(503, "text/plain", "busy"), 503, "busy"},
		{"HTML", HTML(), 200, "<!DOCTYPE html>"},
		{"Redirect", Redirect("https://elsewhere"), 307, ""},
		{"Delay", Delay(time.Millisecond, Allow()), 200, frame},
		{"Endless", Endless(), 200, `["xxxx`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := New(t, test.handler)
			status, body, err := ask(client(t, s), s.URL("/"))
			if err != nil || status != test.status || !strings.HasPrefix(body, test.body) {
				t.Errorf("status %d, body %.200q, error %v", status, body, err)
			}
			if strings.HasSuffix(test.body, "}") && body != test.body {
				t.Errorf("body %q", body)
			}
			if s.Calls() != 1 || s.Handshakes() != 1 {
				t.Errorf("%d calls, %d handshakes", s.Calls(), s.Handshakes())
			}
		})
	}
	t.Run("HugePatch", func(t *testing.T) {
		s := New(t, HugePatch(1<<20))
		_, body, err := ask(client(t, s), s.URL("/"))
		var review admissionv1.AdmissionReview
		if err != nil || json.Unmarshal([]byte(body), &review) != nil || len(review.Response.Patch) < 1<<20 ||
			!json.Valid(review.Response.Patch) {
			t.Errorf("%d bytes, error %v", len(body), err)
		}
	})
	t.Run("not a review", func(t *testing.T) {
		s := New(t, Allow())
		resp, err := client(t, s).Post(s.URL("/"), "application/json", bytes.NewReader([]byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

func TestNoAnswers(t *testing.T) {
	for name, handler := range map[string]http.Handler{"Hang": Hang(), "Drip": Drip(time.Millisecond),
		"Delay": Delay(time.Hour, Allow())} {
		for protocol, options := range map[string][]Option{"h2": nil, "http1": {HTTP1()}} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				s := New(t, handler, options...)
				c := client(t, s)
				c.Timeout = 500 * time.Millisecond
				if _, _, err := ask(c, s.URL("/")); err == nil || !strings.Contains(err.Error(), "Client.Timeout") {
					t.Errorf("error %v", err)
				}
			})
		}
	}
	for protocol, options := range map[string][]Option{"h2": nil, "http1": {HTTP1()}} {
		t.Run("CloseMidBody/"+protocol, func(t *testing.T) {
			s := New(t, CloseMidBody(), options...)
			if status, body, err := ask(client(t, s), s.URL("/")); err == nil || status != 200 || body != `{"kind":` {
				t.Errorf("status %d, body %q, error %v", status, body, err)
			}
		})
	}
	s := New(t, Allow())
	for name, test := range map[string]struct{ address, want string }{
		"Refusing":  {Refusing(t), "connection refused"},
		"Silent":    {Silent(t), "Client.Timeout"},
		"Plaintext": {Plaintext(t), "server gave HTTP response to HTTPS client"},
	} {
		c := client(t, s)
		c.Timeout = 500 * time.Millisecond
		if name != "Silent" {
			c.Timeout = 0
		}
		if _, _, err := ask(c, "https://"+test.address); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestCertificates(t *testing.T) {
	s := New(t, Allow(), Names("svc.ns.svc"), WantClientCertificate())
	certPEM, keyPEM := s.Authority.Client("alice")
	alice, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(client(t, s), s.URL("/")); err == nil {
		t.Error("a client without a certificate was answered")
	}
	if _, _, err := ask(client(t, s, alice), s.URL("/")); err != nil {
		t.Error(err)
	}
	if got := strings.Join(s.Clients(), " "); got != "alice" {
		t.Errorf("clients %q", got)
	}
	s.UseCertificate(s.Authority.Serving(time.Now().Add(-time.Minute), "127.0.0.1"))
	var invalid *tls.CertificateVerificationError
	if _, _, err := ask(client(t, s, alice), s.URL("/")); !errors.As(err, &invalid) {
		t.Errorf("expired: error %v", err)
	}
	s.Rotate()
	if _, _, err := ask(client(t, s, alice), s.URL("/")); err != nil {
		t.Error(err)
	}
}

// The address is the same over a server's lives, and what is open is known.
func TestLives(t *testing.T) {
	for protocol, options := range map[string][]Option{"HTTP/2.0": nil, "HTTP/1.1": {HTTP1()}} {
		t.Run(protocol, func(t *testing.T) {
			s := New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != protocol {
					t.Errorf("spoke %s", r.Proto)
				}
				Allow().ServeHTTP(w, r)
			}), options...)
			address := s.Address()
			for range 3 {
				if _, _, err := ask(client(t, s), s.URL("/")); err != nil {
					t.Fatal(err)
				}
				if s.Connections() != 1 {
					t.Errorf("%d connections", s.Connections())
				}
				s.Stop()
				if s.Connections() != 0 {
					t.Errorf("%d connections of a stopped server", s.Connections())
				}
				if _, _, err := ask(client(t, s), s.URL("/")); err == nil {
					t.Error("a stopped server answered")
				}
				s.Restart()
				if s.Address() != address {
					t.Errorf("moved to %s", s.Address())
				}
			}
			s.Freeze()
			c := client(t, s)
			c.Timeout = 200 * time.Millisecond
			if _, _, err := ask(c, s.URL("/")); err == nil {
				t.Error("a frozen server answered")
			}
			s.Restart()
			if _, _, err := ask(client(t, s), s.URL("/")); err != nil {
				t.Error(err)
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Nobody else gets an address that refuses, which would answer then.
func TestRefusingStaysTaken(t *testing.T) {
	address := Refusing(t)
	if listener, err := net.Listen("tcp", address); err == nil {
		_ = listener.Close()
		t.Errorf("%s is free", address)
	}
}
