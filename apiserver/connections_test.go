// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// serving is a server on a listener of ours. Its requests tell that they have come, and wait.
func serving(t *testing.T) (s *http.Server, url string, came, goOn chan struct{}) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(tcp)
	came, goOn = make(chan struct{}), make(chan struct{})
	s = &http.Server{Handler: l.counted(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		<-goOn
		_, _ = io.WriteString(w, "answered")
	}))}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return s, "http://" + tcp.Addr().String(), came, goOn
}

// A client that keeps its connection open and asks nothing doesn't hold up the end of a server.
// Without that a new connection, on which nothing was asked, would for five seconds.
func TestStopWithIdleConnections(t *testing.T) {
	s, url, _, _ := serving(t)
	connection, err := net.Dial("tcp", url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if err := connection.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
}

// Requests of the server to itself don't hold up its end, either: its own watches last until then.
func TestOwnRequestsDontCount(t *testing.T) {
	l, came := newListener(nil), false
	l.counted(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came = true
		if n := l.requests.Load(); n != 0 {
			t.Errorf("%d requests are being served on connections", n)
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if !came {
		t.Error("the request wasn't served")
	}
}

// Requests that are being served are served to their end.
func TestStopWhileServing(t *testing.T) {
	s, url, came, goOn := serving(t)
	answer := make(chan string, 1)
	go func() {
		response, err := http.Get(url)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		answer <- string(body)
	}()
	<-came
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-stopped:
		t.Fatalf("it stopped while it served (%v)", err)
	case got := <-answer:
		t.Fatalf("the request ended with %s", got)
	case <-time.After(4 * quietTime): // that is when nothing happening could have done harm
	}
	close(goOn)
	if got := <-answer; got != "answered" {
		t.Errorf("the answer is %s", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
