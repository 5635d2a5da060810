// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backends

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// A Cloud is a running one. It ends with the test.
type Cloud struct {
	*httptest.Server
	// AuthorityFile has the certificate that the cloud's own is from.
	AuthorityFile string
	// CredentialsFile has what the cloud's clients prove who they are with.
	CredentialsFile string

	mu       sync.Mutex
	requests []string
	next     []http.HandlerFunc
}

// Next makes the next requests be answered so, each by one of the handlers.
func (c *Cloud) Next(handlers ...http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = append(c.next, handlers...)
}

// Requests are all so far, each a method and a path with its query.
func (c *Cloud) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Repeat is a handler n times.
func Repeat(n int, handler http.HandlerFunc) []http.HandlerFunc {
	return slices.Repeat([]http.HandlerFunc{handler}, n)
}

// Hang never answers. It ends when the client gives up, and then as Reset does: a client that is
// just closing its connection would still take what a handler that returns answers.
func Hang(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
	<-r.Context().Done()
	Reset(w, r)
}

// Reset breaks the connection.
func Reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func start(t testing.TB, handler http.HandlerFunc) *Cloud {
	t.Helper()
	c := &Cloud{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests = append(c.requests, r.Method+" "+r.URL.String())
		answer := handler
		if len(c.next) > 0 {
			answer, c.next = c.next[0], c.next[1:]
		}
		c.mu.Unlock()
		answer(w, r)
	}))
	c.Config.ErrorLog = log.New(io.Discard, "", 0) // tests cause failed handshakes
	c.StartTLS()
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	c.AuthorityFile = filepath.Join(t.TempDir(), "ca.crt")
	write(t, c.AuthorityFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
	return c
}

func write(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
