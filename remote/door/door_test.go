// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/webhook/server"
)

const (
	// within is how soon an API server is to be answered, and many how many slow callers there are.
	within = 5 * time.Second
	many   = 1200
	path   = "/validate"
	review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}`
)

// house is a door that is open, and where it is.
type house struct {
	*Door
	address   string
	authority *authority.Authority
	// tokens are those that the API server accepts, asked how often it was asked.
	tokens []string
	asked  atomic.Int32
	// hold, if it is set, is called by the webhook.
	hold func()
}

// build serves a door on a port of its own. It ends with the test.
func build(t *testing.T, l limits) *house {
	t.Helper()
	key, err := authority.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	validity := authority.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	h := &house{hold: func() {}}
	if h.authority, err = authority.New("test", key, validity); err != nil {
		t.Fatal(err)
	}
	pair := h.pair(t, func() ([]byte, []byte, error) {
		return h.authority.Serving("test", []string{"127.0.0.1"}, validity)
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.authority.CertPEM())
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		h.asked.Add(1)
		asked := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		for _, token := range h.tokens {
			asked.Status.Authenticated = asked.Status.Authenticated || token == asked.Spec.Token
		}
		return true, asked, nil
	})
	h.Door = newDoor(NewCallers(roots, client.AuthenticationV1().TokenReviews()), l)
	decide := func(context.Context, *admissionv1.AdmissionRequest) server.Response {
		h.hold()
		return server.Allowed()
	}
	h.Open(map[string]http.Handler{path: server.Handler(decide)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		front := server.Server{Handler: h, RequestClientCert: true,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }}
		if err := front.Serve(ctx, h.Listen(listener)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return h
}

func (h *house) pair(t *testing.T, sign func() ([]byte, []byte, error)) *tls.Certificate {
	t.Helper()
	certPEM, keyPEM, err := sign()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// client returns a client that keeps connections as API servers do.
func (h *house) client(t *testing.T, certificates ...tls.Certificate) *http.Client {
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: within}
}

// ask posts a review, and returns the code of the answer.
func (h *house) ask(client *http.Client, token string) (int, error) {
	r, err := http.NewRequest(http.MethodPost, "https://"+h.address+path, strings.NewReader(review))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return answered(client.Do(r))
}

func answered(response *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// answers fails the test unless ordinary reviews are answered: those of an API server that keeps
// its connection, and of one that has a new one for each.
func (h *house) answers(t *testing.T) {
	t.Helper()
	kept := h.client(t)
	for range 20 {
		for _, client := range []*http.Client{kept, h.client(t)} {
			if code, err := h.ask(client, ""); err != nil || code != http.StatusOK {
				t.Fatalf("a review: %d, %v", code, err)
			}
		}
	}
}

// dial returns a connection that is closed with the test.
func (h *house) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(1); err != nil { // or as small as it can be
		t.Fatal(err)
	}
	return c
}

// begin sends a part of a request on a connection of its own.
func (h *house) begin(t *testing.T, text string) *tls.Conn {
	t.Helper()
	c := tls.Client(h.dial(t), &tls.Config{InsecureSkipVerify: true})
	_, _ = io.WriteString(c, text) // it may have given way by now
	return c
}

// post is the beginning of a review that claims to be large.
const post = "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
	"Content-Length: 7000000\r\n\r\n{"

// Callers that begin something and wait keep no API server out, however many they are.
func TestSlowCallers(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, h *house){
		"connections that say nothing": func(t *testing.T, h *house) { h.dial(t) },
		"headers that don't end":       func(t *testing.T, h *house) { h.begin(t, "POST "+path+" HTTP/1.1\r\nHost:") },
		"bodies of one byte":           func(t *testing.T, h *house) { h.begin(t, post) },
		"streams of one byte": func(t *testing.T, h *house) {
			client := h.client(t)
			if _, err := answered(client.Get("https://" + h.address + "/livez")); err != nil {
				return // its connection gave way
			}
			for range 100 { // of its connection
				body, w := io.Pipe()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+h.address+path, body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				go func() { _, _ = answered(client.Do(r)) }()
				go func() { _, _ = w.Write([]byte{'{'}) }()
				t.Cleanup(func() { w.Close() })
			}
		},
		"answers that aren't read": func(t *testing.T, h *house) {
			h.begin(t, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 4))
		},
		"bodies elsewhere": func(t *testing.T, h *house) {
			h.begin(t, strings.Replace(post, path, "/healthz", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, defaults)
			n := many
			if strings.HasPrefix(name, "streams") {
				n = many / 20
			}
			for range n {
				attack(t, h)
			}
			h.answers(t)
		})
	}
}

// Callers that open connections as fast as they can, from the address of an API server, may keep it
// out. Then /healthz says so.
func TestFastCallers(t *testing.T) {
	h := build(t, defaults)
	flooding, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			var open []net.Conn // no more than a process may have
			for flooding.Err() == nil {
				if c, err := net.Dial("tcp", h.address); err == nil {
					open = append(open, c)
				}
				if len(open) > 100 {
					open[0].Close()
					open = open[1:]
				}
			}
			for _, c := range open {
				c.Close()
			}
		})
	}
	for range 50 {
		if code, err := h.ask(h.client(t), ""); err == nil && code == http.StatusOK {
			continue
		}
		if h.healthy(nil) == nil {
			t.Fatal("a review isn't answered, and /healthz is ok")
		}
	}
	stop()
	callers.Wait()
	h.answers(t)
}

// What is silent, or comes too slowly, is hung up on.
func TestSlowBodiesEnd(t *testing.T) {
	l := defaults
	l.silence, l.rate = time.Second, 100<<20 // the answers have to be sent within silence, too
	h := build(t, l)
	silent := h.begin(t, post)
	dripping := h.begin(t, post)
	go func() {
		for {
			if _, err := dripping.Write([]byte{' '}); err != nil {
				return
			}
		}
	}()
	for name, c := range map[string]net.Conn{"silent": silent, "dripping": dripping} {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Errorf("%s: %v", name, err)
		}
		if name == "silent" && !bytes.Contains(got, []byte("408 Request Timeout")) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Known callers are served while strangers have taken all that there is for them.
func TestKnownCallers(t *testing.T) {
	h := build(t, defaults)
	h.tokens = []string{"good"}
	held, release := make(chan struct{}, many), make(chan struct{})
	h.hold = func() {
		held <- struct{}{}
		<-release
	}
	turns := int(h.limits.work[false] / h.limits.turn)
	stranger := h.client(t)
	stranger.Timeout = 0
	var asking sync.WaitGroup
	for range turns + 10 {
		asking.Go(func() {
			if code, err := h.ask(stranger, ""); err != nil || code != http.StatusOK {
				t.Errorf("a stranger: %d, %v", code, err)
			}
		})
	}
	for range turns {
		<-held
	}
	validity := authority.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	pair := h.pair(t, func() ([]byte, []byte, error) { return h.authority.Client("apiserver", nil, validity) })
	for name, ask := range map[string]func() (int, error){
		"token":       func() (int, error) { return h.ask(h.client(t), "good") },
		"certificate": func() (int, error) { return h.ask(h.client(t, *pair), "") },
	} {
		done := make(chan error, 1)
		go func() {
			code, err := ask()
			if code != http.StatusOK {
				err = fmt.Errorf("%d, %w", code, err)
			}
			done <- err
		}()
		select {
		case <-held: // it is its turn
		case err := <-done:
			t.Errorf("with a %s: %v", name, err)
		}
		defer func() {
			if err := <-done; err != nil {
				t.Errorf("with a %s: %v", name, err)
			}
		}()
	}
	// A token that nobody accepts is that of a stranger. If it were its turn, it would be held, too.
	if code, err := h.ask(&http.Client{Transport: stranger.Transport, Timeout: time.Second}, "bad"); err == nil ||
		len(held) > 0 {
		t.Errorf("with a wrong token: %d, %v, its turn: %t", code, err, len(held) > 0)
	}
	close(release)
	asking.Wait()
}

// Where a review waits for too long, /healthz says so.
func TestHealth(t *testing.T) {
	l := defaults
	// Within silence answers have to be sent, too.
	l.silence, l.work = time.Second, map[bool]int64{false: l.turn, true: l.turn}
	h := build(t, l)
	client := h.client(t)
	get := func() int {
		code, err := answered(client.Get("https://" + h.address + "/healthz"))
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	if code := get(); code != http.StatusOK {
		t.Fatalf("at the beginning: %d", code)
	}
	release := make(chan struct{})
	h.hold = func() { <-release }
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() { _, _ = h.ask(client, "") })
	}
	for until := time.Now().Add(time.Minute); get() == http.StatusOK; {
		if time.Now().After(until) {
			t.Fatal("/healthz is 200 while a review waits")
		}
	}
	close(release)
	asking.Wait()
}

// Strangers can't use up the TokenReviews of others.
func TestTokenReviews(t *testing.T) {
	h := build(t, defaults)
	h.tokens = []string{"good"}
	client := h.client(t)
	for i := range 100 {
		if code, err := h.ask(client, fmt.Sprint(i)); err != nil || code != http.StatusOK {
			t.Fatalf("a stranger: %d, %v", code, err)
		}
	}
	if n := h.asked.Load(); n > 50 {
		t.Errorf("100 wrong tokens of an address have %d reviews", n)
	}
	for i := range 5 * maxTokens {
		r, err := http.NewRequest(http.MethodPost, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)
		r.Header.Set("Authorization", fmt.Sprintf("Bearer of %d", i))
		h.callers.isKnown(r)
	}
	if n := len(h.callers.tokens); n > maxTokens {
		t.Errorf("%d tokens are remembered", n)
	}
	if n := len(h.callers.addresses); n > maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
	if n := h.asked.Load(); n > 500 {
		t.Errorf("wrong tokens of many addresses have %d reviews", n)
	}
}
