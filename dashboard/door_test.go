// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/test/needs"
)

// ask is a request as anybody may send it.
func ask(t *testing.T, method, address, host, cookie, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	if cookie != "" {
		request.Header.Set("Cookie", cookie)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestWhoIsLetIn(t *testing.T) {
	d, _ := start(t, newFakeAPI(t), "")
	base, token := "http://"+d.door.host, d.door.token
	port := base[strings.LastIndex(base, ":"):]
	home, ip := d.door.path, strings.TrimSuffix(d.door.host, port)
	id, _ := d.door.begin()
	ended, _ := d.door.begin()
	d.door.mu.Lock()
	d.door.sessions[ended] = time.Now()
	d.door.mu.Unlock()
	cookie := cookieName + "=" + id
	for name, test := range map[string]struct {
		method, path, host, cookie, body string
		want                             int
	}{
		"the URL":                  {path: home + "?token=" + token, want: 200},
		"a session":                {path: home, cookie: cookie, want: 200},
		"a file":                   {path: home + "app.js", cookie: cookie, want: 200},
		"beside another's cookie":  {path: home, cookie: cookieName + "=x; " + cookie, want: 200},
		"nothing":                  {path: home, want: 401},
		"a file without":           {path: home + "app.js", want: 401},
		"events without":           {path: home + "events", want: 401},
		"a decision without":       {path: home + "decision/shop/web", want: 401},
		"what is set up, without":  {path: home + "configured", want: 401},
		"another token":            {path: home + "?token=" + strings.Repeat("A", len(token)), want: 401},
		"a beginning of the token": {path: home + "?token=" + token[:10], want: 401},
		"an empty token":           {path: home + "?token=", want: 401},
		"another session":          {path: home, cookie: cookieName + "=x", want: 401},
		"no session":               {path: home, cookie: cookieName + "=", want: 401},
		"a session that has ended": {path: home, cookie: cookieName + "=" + ended, want: 401},
		"another cookie":           {path: home, cookie: cookieName + "-1=" + id, want: 401},
		"the token for a session":  {path: home, cookie: cookieName + "=" + token, want: 401},
		"a session for the token":  {path: home + "?token=" + id, want: 401},
		"the token elsewhere":      {path: home + "events?token=" + token, want: 401},
		"another path":             {path: "/", cookie: cookie, want: 401},
		"the token at another":     {path: "/?token=" + token, want: 401},
		"an empty ticket":          {path: home + "?once=", want: 401},
		"another name":             {path: home, cookie: cookie, host: "attacker.example" + port, want: 421},
		"another address":          {path: home, cookie: cookie, host: "127.0.0.1" + port, want: 421},
		"as localhost":             {path: home, cookie: cookie, host: "localhost" + port, want: 421},
		"another port":             {path: home, cookie: cookie, host: "127.0.0.1:1", want: 421},
		"no port":                  {path: home, cookie: cookie, host: ip, want: 421},
		"a name like ours":         {path: home, cookie: cookie, host: "localhost.attacker.example" + port, want: 421},
		"POST":                     {method: "POST", path: home, cookie: cookie, want: 405},
		"DELETE":                   {method: "DELETE", path: home + "decision/shop/web", cookie: cookie, want: 405},
		"OPTIONS":                  {method: "OPTIONS", path: home + "events", cookie: cookie, want: 405},
		"a body":                   {path: home, cookie: cookie, body: "x", want: 413},
		"the API server's paths":   {path: home + "api/v1/secrets", cookie: cookie, want: 404},
		"no decision":              {path: home + "decision/shop/web", cookie: cookie, want: 404},
		"out of the folder":        {path: home + "..%2fdashboard.go", cookie: cookie, want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			method := test.method
			if method == "" {
				method = http.MethodGet
			}
			response := ask(t, method, base+test.path, test.host, test.cookie, test.body)
			if response.StatusCode != test.want {
				t.Errorf("got %s", response.Status)
			}
			for _, header := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Methods"} {
				if got := response.Header.Get(header); got != "" {
					t.Errorf("%s: %s", header, got)
				}
			}
			csp := response.Header.Get("Content-Security-Policy")
			if !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") ||
				response.Header.Get("X-Content-Type-Options") != "nosniff" ||
				response.Header.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("got the headers %v", response.Header)
			}
			if response.StatusCode == http.StatusOK && response.Header.Get("Cache-Control") != "no-store" {
				t.Error("it may be kept")
			}
		})
	}
}

func TestCookie(t *testing.T) {
	d, _ := start(t, newFakeAPI(t), "")
	seen := map[string]bool{d.door.token: true}
	for range 2 {
		cookies := ask(t, http.MethodGet, d.URL(), "", "", "").Cookies()
		if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode ||
			cookies[0].Path != d.door.path || cookies[0].Domain != "" || len(cookies[0].Value) < 26 {
			t.Fatalf("got %v", cookies)
		}
		if seen[cookies[0].Value] {
			t.Errorf("the cookie is the token, or that of another session: %v", cookies[0])
		}
		seen[cookies[0].Value] = true
	}
	other, _ := start(t, newFakeAPI(t), "")
	if other.door.token == d.door.token || other.door.path == d.door.path {
		t.Error("two dashboards share a token or a path")
	}
}

// Other servers on the machine never get the cookie, on whichever address and port of it they are:
// neither when the port is any nor when it is chosen.
func TestOtherServersGetNoCookie(t *testing.T) {
	for name, chosen := range map[string]bool{"any port": false, "a port": true} {
		t.Run(name, func(t *testing.T) {
			api, port := newFakeAPI(t), 0
			if chosen {
				free, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				port = free.Addr().(*net.TCPAddr).Port
				free.Close() // as late as possible: what opens a port next may get this one
			}
			d, err := New(api.config(), "", port, nil)
			if err != nil {
				t.Fatal(err)
			}
			run(t, d)
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			browser := &http.Client{Jar: jar}
			get := func(address string) int {
				t.Helper()
				response, err := browser.Get(address)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				return response.StatusCode
			}
			if code := get(d.URL()); code != http.StatusOK {
				t.Fatalf("got %d", code)
			}
			if code := get(d.base()); code != http.StatusOK {
				t.Fatalf("with the cookie: got %d", code)
			}
			ours, boundTo, err := net.SplitHostPort(d.door.host)
			if err != nil || port != 0 && (ours != "127.0.0.1" || boundTo != strconv.Itoa(port)) {
				t.Fatalf("it listens on %s, %v", d.door.host, err)
			}
			for _, host := range []string{"127.0.0.1", ours} {
				got := make(chan string, 1)
				listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
				if err != nil {
					t.Fatal(err)
				}
				other := &httptest.Server{Listener: listener, Config: &http.Server{
					Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						got <- r.Header.Get("Cookie")
					})}}
				other.Start()
				defer other.Close()
				for _, path := range []string{"/", "/events", "/app.js", d.door.path[:len(d.door.path)-2] + "/"} {
					if get(other.URL + path); <-got != "" {
						t.Errorf("a server on %s got the cookie at %s", host, path)
					}
				}
			}
		})
	}
}

// Where the system has more addresses of its own than 127.0.0.1, no two dashboards share one.
func TestRandomAddress(t *testing.T) {
	if listener, err := net.Listen("tcp", "127.1.2.3:0"); err != nil {
		needs.Missing(t, "more addresses of its own than 127.0.0.1: %v", err)
	} else {
		listener.Close()
	}
	seen := map[string]bool{"127.0.0.1": true}
	for range 20 {
		listener, err := listen(0)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ip := listener.Addr().(*net.TCPAddr).IP
		if seen[ip.String()] || !ip.IsLoopback() {
			t.Errorf("listens on %s", ip)
		}
		seen[ip.String()] = true
	}
}

// Sessions are bounded in number and in time, and a stream ends with its session.
func TestSessions(t *testing.T) {
	d, _ := start(t, newFakeAPI(t), "")
	var ids []string
	for range maxSessions + 1 {
		ids = append(ids, ask(t, http.MethodGet, d.URL(), "", "", "").Cookies()[0].Value)
	}
	if len(d.door.sessions) != maxSessions {
		t.Errorf("there are %d sessions", len(d.door.sessions))
	}
	for i, want := range map[int]int{0: 401, 1: 200, maxSessions: 200} {
		if got := ask(t, http.MethodGet, d.base(), "", cookieName+"="+ids[i], "").StatusCode; got != want {
			t.Errorf("session %d: got %d, want %d", i, got, want)
		}
	}
	_, end := d.door.begin()
	if left := time.Until(end); left > sessionTime || left < sessionTime-time.Hour {
		t.Errorf("a session lasts %s", left)
	}
	var stream *http.Response
	for left := time.Second; left < time.Minute; left *= 2 { // until the stream begins before the session's end
		d.door.mu.Lock()
		d.door.sessions[ids[maxSessions]] = time.Now().Add(left)
		d.door.mu.Unlock()
		stream = ask(t, http.MethodGet, d.base()+"events", "", cookieName+"="+ids[maxSessions], "")
		if stream.StatusCode != http.StatusUnauthorized {
			break
		}
	}
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("got %s", stream.Status)
	}
	if _, err := io.ReadAll(stream.Body); err != nil { // it goes on for ever, or ends
		t.Error(err)
	}
}

// A ticket opens the page once, and not after its time.
func TestTicket(t *testing.T) {
	d, _ := start(t, newFakeAPI(t), "")
	late := d.TicketURL()
	d.door.mu.Lock()
	d.door.until = time.Now()
	d.door.mu.Unlock()
	if got := ask(t, http.MethodGet, late, "", "", ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("late: got %s", got.Status)
	}
	ticket := d.TicketURL()
	if strings.Contains(ticket, d.door.token) || strings.Contains(ticket, d.door.path) {
		t.Error("the ticket has the token, or the path")
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	for _, address := range []string{ticket, d.base()} {
		got, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != http.StatusOK || got.Request.URL.String() != d.base() {
			t.Errorf("got %s, at %s", got.Status, got.Request.URL)
		}
	}
	if got := ask(t, http.MethodGet, ticket, "", "", ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("once more: got %s", got.Status)
	}
}

// What anybody on the machine may send, or not read, is bounded.
func TestBounds(t *testing.T) {
	f := newFakeAPI(t)
	d, client := start(t, f, "")
	if got := ask(t, http.MethodGet, d.base()+"?x="+strings.Repeat("x", 2*maxHeader), "", "", "").
		StatusCode; got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long address: got %d", got)
	}
	for range maxPages {
		d.read(t, client).next("state", "")
	}
	response, err := client.Get(d.base() + "events")
	if err != nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one page more: got %v, %v", response, err)
	}
	if _, err := New(d.config, "", 70000, nil); err == nil {
		t.Error("listens on port 70000")
	}
	// somebody who begins a request and doesn't go on
	idle, err := net.Dial("tcp", d.door.host)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if _, err := io.WriteString(idle, "GET / HTTP/1.1\r\nHost: "); err != nil {
		t.Fatal(err)
	}
	if err := idle.SetReadDeadline(time.Now().Add(4 * headerTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(idle); err != nil {
		t.Errorf("a request without an end: %v", err)
	}
}

// A page that doesn't read gets all anew when it does, and the mirror keeps to its limit.
func TestMirrorIsBounded(t *testing.T) {
	m := newMirror(10, state{})
	p := m.open(1)
	m.take(p)
	for i := range 3 * maxPending {
		if err := m.Add(made("d"+string(rune('a'+i%26))+strings.Repeat("x", i/26%50), i)); err != nil {
			t.Fatal(err)
		}
		if len(m.byKey) > 10 || len(m.order) > 200 || len(p.changes) > maxPending {
			t.Fatalf("after %d: %d, %d in order, %d changes wait", i, len(m.byKey), len(m.order), len(p.changes))
		}
	}
	if n := m.take(p); !n.all || len(n.rows) != 10 || len(n.changes) != 0 {
		t.Errorf("the page is told all: %t, %d rows, %d changes", n.all, len(n.rows), len(n.changes))
	}
	var many []any
	for i := range 30 {
		many = append(many, made(strings.Repeat("y", i+1), 71+i))
	}
	if err := m.Replace(many, ""); err != nil {
		t.Fatal(err)
	}
	n := m.take(p)
	if !n.all || len(n.rows) != 10 || n.rows[9].decision.Time.Unix() != 100 || n.rows[0].decision.Time.Unix() != 91 {
		t.Errorf("after a list there are %d rows", len(n.rows))
	}
}
