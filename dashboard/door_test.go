package dashboard

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
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
	base := "http://" + d.host
	port := d.host[strings.LastIndex(d.host, ":"):]
	cookie := d.cookie + "=" + d.token
	for name, test := range map[string]struct {
		method, path, host, cookie, body string
		want                             int
	}{
		"the URL":                  {path: "/?token=" + d.token, want: 200},
		"the cookie":               {path: "/", cookie: cookie, want: 200},
		"a file":                   {path: "/app.js", cookie: cookie, want: 200},
		"as localhost":             {path: "/", cookie: cookie, host: "localhost" + port, want: 200},
		"nothing":                  {path: "/", want: 401},
		"a file without":           {path: "/app.js", want: 401},
		"events without":           {path: "/events", want: 401},
		"a decision without":       {path: "/decision/shop/web", want: 401},
		"what is set up, without":  {path: "/configured", want: 401},
		"another token":            {path: "/?token=" + strings.Repeat("A", len(d.token)), want: 401},
		"a beginning of the token": {path: "/?token=" + d.token[:10], want: 401},
		"an empty token":           {path: "/?token=", want: 401},
		"another cookie":           {path: "/", cookie: d.cookie + "=x", want: 401},
		"another port's cookie":    {path: "/", cookie: "gatehouse-dashboard-1=" + d.token, want: 401},
		"the token elsewhere":      {path: "/events?token=" + d.token, want: 401},
		"an empty ticket":          {path: "/?once=", want: 401},
		"another name":             {path: "/", cookie: cookie, host: "attacker.example" + port, want: 421},
		"another port":             {path: "/", cookie: cookie, host: "127.0.0.1:1", want: 421},
		"no port":                  {path: "/", cookie: cookie, host: "127.0.0.1", want: 421},
		"a name like ours":         {path: "/", cookie: cookie, host: "localhost.attacker.example" + port, want: 421},
		"POST":                     {method: "POST", path: "/", cookie: cookie, want: 405},
		"DELETE":                   {method: "DELETE", path: "/decision/shop/web", cookie: cookie, want: 405},
		"OPTIONS":                  {method: "OPTIONS", path: "/events", cookie: cookie, want: 405},
		"a body":                   {path: "/", cookie: cookie, body: "x", want: 413},
		"the API server's paths":   {path: "/api/v1/secrets", cookie: cookie, want: 404},
		"no decision":              {path: "/decision/shop/web", cookie: cookie, want: 404},
		"out of the folder":        {path: "/..%2fdashboard.go", cookie: cookie, want: 404},
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
	cookies := ask(t, http.MethodGet, d.URL(), "", "", "").Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode ||
		cookies[0].Value != d.token || cookies[0].Domain != "" || len(d.token) < 26 {
		t.Errorf("got %v", cookies)
	}
	other, _ := start(t, newFakeAPI(t), "")
	if other.token == d.token || other.cookie == d.cookie {
		t.Error("two dashboards share a token or a cookie's name")
	}
	address, err := url.Parse(d.URL())
	if err != nil || address.Hostname() != "127.0.0.1" {
		t.Errorf("the URL is %s", d.URL())
	}
}

// A ticket opens the page once, and not after its time.
func TestTicket(t *testing.T) {
	d, _ := start(t, newFakeAPI(t), "")
	late := d.TicketURL()
	d.mu.Lock()
	d.until = time.Now()
	d.mu.Unlock()
	if got := ask(t, http.MethodGet, late, "", "", ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("late: got %s", got.Status)
	}
	ticket := d.TicketURL()
	if strings.Contains(ticket, d.token) {
		t.Error("the ticket has the token")
	}
	if got := ask(t, http.MethodGet, ticket, "", "", ""); got.StatusCode != http.StatusOK || len(got.Cookies()) != 1 {
		t.Errorf("got %s, %v", got.Status, got.Cookies())
	}
	if got := ask(t, http.MethodGet, ticket, "", "", ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("once more: got %s", got.Status)
	}
}

// What anybody on the machine may send, or not read, is bounded.
func TestBounds(t *testing.T) {
	f := newFakeAPI(t)
	d, client := start(t, f, "")
	if got := ask(t, http.MethodGet, "http://"+d.host+"/?x="+strings.Repeat("x", 2*maxHeader), "", "", "").
		StatusCode; got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long address: got %d", got)
	}
	for range maxPages {
		d.read(t, client).next("state", "")
	}
	response, err := client.Get("http://" + d.host + "/events")
	if err != nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one page more: got %v, %v", response, err)
	}
	if _, err := New(d.config, "", 70000, nil); err == nil {
		t.Error("listens on port 70000")
	}
	// somebody who begins a request and doesn't go on
	idle, err := net.Dial("tcp", d.host)
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

// A dashboard ends with its context, with pages open.
func TestEnds(t *testing.T) {
	f := newFakeAPI(t)
	d, err := New(f.config(), "", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	d.read(t, &http.Client{Transport: withCookie{d}}).next("state", "live")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if _, err := net.Dial("tcp", d.host); err == nil {
		t.Error("still listens")
	}
}
