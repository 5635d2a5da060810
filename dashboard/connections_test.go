// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// Strangers who connect and wait keep nobody out: neither before they have asked for anything nor
// after.
func TestStrangersWait(t *testing.T) {
	d, _ := start(t, newFakeAPI(t), "")
	for i := range 2 * maxConnections {
		stranger, err := net.Dial("tcp", d.door.host)
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		if i%2 == 0 {
			continue
		}
		if _, err := io.WriteString(stranger, "GET / HTTP/1.1\r\nHost: "+d.door.host+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(stranger), nil)
		if err != nil || answer.StatusCode != http.StatusUnauthorized || !answer.Close {
			t.Fatalf("a stranger got %v, %v", answer, err)
		}
	}
	// A page that is open stays, whatever comes.
	client := &http.Client{Transport: newSession(d)}
	page := d.read(t, client)
	page.next("state", "")
	began := time.Now()
	var first net.Conn
	for range 2 * maxConnections {
		stranger, err := net.Dial("tcp", d.door.host)
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		if first == nil {
			first = stranger
		}
	}
	if got := ask(t, http.MethodGet, d.URL(), "", "", ""); got.StatusCode != http.StatusOK {
		t.Errorf("got %s", got.Status)
	}
	if took := time.Since(began); took > headerTimeout {
		t.Errorf("strangers kept others out for %s", took)
	}
	if err := first.SetReadDeadline(began.Add(headerTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(first); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("more connections are open than there may be")
	}
	d.mirror.set(waiting, "still here")
	page.next("state", "still here")
}

// A dashboard ends with its context, with pages open and connections on which nothing is asked.
func TestEnds(t *testing.T) {
	f := newFakeAPI(t)
	d, err := New(f.config(), "", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	d.read(t, &http.Client{Transport: newSession(d)}).next("state", "live")
	for _, begun := range []string{"", "GET / HTTP/1.1\r\nHost: "} {
		idle, err := net.Dial("tcp", d.door.host)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		if _, err := io.WriteString(idle, begun); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(headerTimeout):
		t.Fatal("it waits for connections on which nothing is asked")
	}
	if _, err := net.Dial("tcp", d.door.host); err == nil {
		t.Error("still listens")
	}
}
