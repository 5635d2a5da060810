// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

// nobody is a kubeconfig of a server that isn't there.
const nobody = `
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: x, user: {token: x}}]
`

// A browser that has opened the dashboard gives its cookie to no other server on the machine:
// neither on 127.0.0.1 nor on the dashboard's own address, neither where the user goes to that
// server nor where its page asks for the dashboard. The dashboard knows the browser again.
func TestOtherServers(t *testing.T) {
	needs.Programs(t, "chromium")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, port := range map[string]int{"any port": 0, "a port": servertest.FreePort(t)} {
		t.Run(name, func(t *testing.T) {
			address := command(t, "--kubeconfig="+kubeconfig, fmt.Sprintf("--port=%d", port))
			home, _, _ := strings.Cut(address, "?")
			ours, err := url.Parse(address)
			if err != nil || (ours.Hostname() == "127.0.0.1") != (port != 0) {
				t.Fatalf("the dashboard is at %s, %v", address, err)
			}
			b := newBrowser(t)
			if _, err := chromedp.Call(b.Context, page.AddScriptToEvaluateOnNewDocument,
				page.AddScriptToEvaluateOnNewDocumentParams{Source: "{ const Real = EventSource; " +
					"EventSource = function (...all) { return window.stream = new Real(...all); }; " +
					"EventSource.CLOSED = Real.CLOSED; }"}); err != nil {
				t.Fatal(err)
			}
			visit(b, address)
			b.Until("document.querySelector('#state.waiting')")
			for _, host := range []string{"127.0.0.1", ours.Hostname()} {
				listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
				if err != nil {
					t.Fatal(err)
				}
				cookies := make(chan string, 100)
				other := &httptest.Server{Listener: listener, Config: &http.Server{
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						cookies <- r.Header.Get("Cookie")
						w.Header().Set("Content-Type", "text/html")
						_, _ = w.Write([]byte("<title>another</title>"))
					})}}
				other.Start()
				defer other.Close()
				visit(b, other.URL+"/")
				b.Until("document.title === 'another'")
				chromium.See[any](b.Page, "fetch('/events', {credentials: 'include'}).then(() => document.title = 'asked'); 1")
				b.Until("document.title === 'asked'")
				chromium.See[any](b.Page, "fetch("+chromium.Quoted(home)+", {credentials: 'include'}).then(() => document.title = 'read', "+
					"() => document.title = 'refused'); 1")
				b.Until("document.title === 'refused'")
				other.Close()
				close(cookies)
				for cookie := range cookies {
					if cookie != "" {
						t.Errorf("a server on %s got the cookie %s", host, cookie)
					}
				}
			}
			visit(b, home)
			b.Until("document.querySelector('#state.waiting')")
			loseSession(b, address)
		})
	}
}

// loseSession has so many others open the dashboard that it forgets the browser's session. The page
// says what to do when it connects again, and works once that is done.
func loseSession(b *browser, address string) {
	b.Helper()
	for range 20 {
		response, err := http.Get(address)
		if err != nil {
			b.Fatal(err)
		}
		response.Body.Close()
	}
	chromium.See[any](b.Page, "stream.close(); stream.dispatchEvent(new Event('error')); 1")
	b.Until("document.querySelector('#problem').innerText.includes('open the URL that gatehouse dashboard printed')")
	visit(b, address)
	b.Until("document.querySelector('#state.waiting')")
}

// The browser that the command opens gets a URL that others on the machine may read: it opens the
// page once.
func TestOpenedBrowser(t *testing.T) {
	needs.Programs(t, "chromium", "sh")
	if runtime.GOOS != "linux" {
		needs.Missing(t, "a system that opens URLs by xdg-open")
	}
	dir := t.TempDir()
	kubeconfig, opened := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "opened")
	script := "#!/bin/sh\nprintf %s \"$1\" > " + opened + ".new && mv " + opened + ".new " + opened + "\n"
	if err := errors.Join(os.WriteFile(kubeconfig, []byte(nobody), 0o600),
		os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	printed, err := url.Parse(command(t, "--kubeconfig="+kubeconfig, "--no-browser=false"))
	if err != nil {
		t.Fatal(err)
	}
	var ticket []byte
	servertest.Retry(t, "the browser", func() (err error) {
		ticket, err = os.ReadFile(opened)
		return err
	})
	if strings.Contains(string(ticket), printed.Path) {
		t.Errorf("others may read the path %s in %s", printed.Path, ticket)
	}
	b := newBrowser(t)
	visit(b, string(ticket))
	b.Until("document.querySelector('#state.waiting')")
	if at := chromium.See[string](b.Page, "location.pathname + location.search"); at != printed.Path {
		t.Errorf("the page is at %s", at)
	}
	visit(b, string(ticket))
	b.Until("document.body.innerText.includes('open the URL that gatehouse dashboard printed')")
}
