// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

type valueKey struct{}

// A server's requests to itself are answered as over a connection: whole or as the answer comes, until
// the handler or the client ends it.
func TestLoopback(t *testing.T) {
	handlerEnded, slowBegun, slowEnded := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l := newLoopback()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(valueKey{}) != nil {
			t.Error("a value of the client's context reached the handler")
		}
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-URI", r.RequestURI)
			w.WriteHeader(http.StatusCreated)
			w.Write(body)
		case "/watch":
			defer close(handlerEnded)
			io.WriteString(w, "one ")
			w.(http.Flusher).Flush()
			io.WriteString(w, "two ")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/broken":
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/aborted":
			panic(http.ErrAbortHandler)
		case "/slow":
			close(slowBegun)
			<-r.Context().Done()
			for range 3 { // nobody reads it
				io.WriteString(w, "late")
				w.(http.Flusher).Flush()
			}
			close(slowEnded)
		}
	})
	ask := func(ctx context.Context, method, path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return (&http.Client{Transport: l}).Do(r)
	}
	early := make(chan string)
	go func() {
		response, err := ask(context.WithValue(t.Context(), valueKey{}, 1), http.MethodPost, "/echo?a=b", "content")
		if err != nil {
			early <- err.Error()
			return
		}
		body, _ := io.ReadAll(response.Body)
		early <- response.Status + " " + response.Header.Get("X-URI") + " " + string(body)
	}()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ended, http.MethodGet, "/echo", ""); err == nil {
		t.Error("a request whose context has ended was answered before there is a handler")
	}
	l.serve(handler)
	if got, want := <-early, "201 Created /echo?a=b content"; got != want {
		t.Errorf("a request that waited for the handler: %s, want %s", got, want)
	}

	response, err := ask(t.Context(), http.MethodGet, "/watch", "")
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, len("one two "))
	if _, err := io.ReadFull(response.Body, text); err != nil || string(text) != "one two " {
		t.Errorf("of a watch was read: %q, %v", text, err)
	}
	response.Body.Close()
	<-handlerEnded // by the client

	if response, err = ask(t.Context(), http.MethodGet, "/broken", ""); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); err != io.ErrUnexpectedEOF || string(body) != "half" {
		t.Errorf("of an answer that broke off was read: %q, %v", body, err)
	}
	if response, err = ask(t.Context(), http.MethodGet, "/aborted", ""); err != nil || response.StatusCode != 500 {
		t.Errorf("a handler that gave up answered %v, %v", response, err)
	}
	slow, cancel := context.WithCancel(t.Context())
	context.AfterFunc(t.Context(), cancel)
	asked := make(chan error)
	go func() { _, err := ask(slow, http.MethodGet, "/slow", ""); asked <- err }()
	<-slowBegun
	cancel()
	if err := <-asked; err == nil {
		t.Error("a request whose client has gone was answered")
	}
	<-slowEnded
}
