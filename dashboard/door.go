// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// ticketTime is how long an unused ticket is valid.
	ticketTime = time.Minute
	// sessionTime is how long a session lasts.
	sessionTime = 24 * time.Hour
	// maxSessions bounds the open sessions. One more ends the oldest session.
	maxSessions = 16
	// cookieName is the name of the cookie with a session's ID.
	cookieName = "gatehouse-dashboard"
)

// A door lets in the user who has the page's URL. The URL has a token, which begins a session. The
// browser identifies the session by its ID in a cookie. The token is never a cookie, so a stolen ID
// is valid only as long as the session lasts.
//
// Browsers send cookies to every port of a host. Other servers on this machine don't get this one,
// because it is limited to the page's random path, and to a random address if the system has any
// besides 127.0.0.1.
type door struct {
	host  string // host:port, as it is listened on
	path  string // which all requests begin with
	token string

	mu       sync.Mutex
	ticket   string // what opens the page once, until then
	until    time.Time
	sessions map[string]time.Time // when each ends, by ID
}

func newDoor(host string) *door {
	return &door{host: host, path: "/" + rand.Text() + "/", token: rand.Text(), sessions: map[string]time.Time{}}
}

// listen listens on a port of 127.0.0.1. If the port is 0, it listens on any port of a random
// loopback address, if the system has more than one: Linux has all of 127.0.0.0/8.
func listen(port int) (net.Listener, error) {
	if port == 0 {
		var random [3]byte
		_, _ = rand.Read(random[:]) // it doesn't fail
		// The ends are left out: programs use the first addresses, and the last ones are broadcast
		// addresses.
		ip := net.IPv4(127, random[0]%254+1, random[1], random[2]%254+1)
		if listener, err := net.Listen("tcp4", net.JoinHostPort(ip.String(), "0")); err == nil {
			return listener, nil
		}
	}
	return net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// url returns the page's URL, with the token.
func (d *door) url() string { return "http://" + d.host + d.path + "?token=" + d.token }

// ticketURL returns a URL that opens the page once, in the next minute. Other users may read it, so
// the page's path isn't in it.
func (d *door) ticketURL() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticket, d.until = rand.Text(), time.Now().Add(ticketTime)
	return "http://" + d.host + "/?once=" + d.ticket
}

// takeTicket reports whether a text is the valid ticket, and invalidates it.
func (d *door) takeTicket(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ticket == "" || time.Now().After(d.until) || !equal(text, d.ticket) {
		return false
	}
	d.ticket = ""
	return true
}

// welcome begins a session, sets the cookie with its ID, and returns its end.
func (d *door) welcome(w http.ResponseWriter) (end time.Time) {
	id, end := d.begin()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: d.path, HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	return end
}

// begin begins a session, and returns its ID and its end.
func (d *door) begin() (id string, end time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sessions) >= maxSessions {
		oldest := ""
		for id, end := range d.sessions {
			if oldest == "" || end.Before(d.sessions[oldest]) {
				oldest = id
			}
		}
		delete(d.sessions, oldest)
	}
	id, end = rand.Text(), time.Now().Add(sessionTime)
	d.sessions[id] = end
	return id, end
}

// sessionOf returns the end of a request's session, if it has one.
func (d *door) sessionOf(r *http.Request) (end time.Time, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cookie := range r.CookiesNamed(cookieName) { // others may have set some, too
		if end, found := d.sessions[cookie.Value]; found && time.Now().Before(end) {
			return end, true
		}
	}
	return time.Time{}, false
}

// policy is the page's Content-Security-Policy: it allows only what is served here, and no HTML
// made from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// openTo returns a handler that passes the requests that are let in to next, until their session
// ends. It removes the page's path from their paths.
func (d *door) openTo(next http.Handler) http.Handler {
	next = http.StripPrefix(strings.TrimSuffix(d.path, "/"), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			w.Header().Set(name, value)
		}
		end, code, why := d.admit(w, r)
		if code != 0 {
			w.Header().Set("Connection", "close") // nobody waits for a stranger
			refuse(w, code, why)
			return
		}
		ctx, cancel := context.WithDeadline(r.Context(), end)
		defer cancel()
		markKnown(ctx)
		if r.URL.Path == "/" { // with a ticket
			http.Redirect(w, r, d.path, http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// admit returns the end of the request's session, or the code and the text with which it is
// refused.
func (d *door) admit(w http.ResponseWriter, r *http.Request) (end time.Time, code int, why string) {
	switch {
	case !d.isOurs(r.Host):
		// A foreign name may resolve to this address (DNS rebinding).
		return end, http.StatusMisdirectedRequest, "this is " + d.host + ", and not " + strconv.Quote(shorten(r.Host, 100))
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET")
		return end, http.StatusMethodNotAllowed, "nothing can be changed here"
	case r.ContentLength != 0:
		return end, http.StatusRequestEntityTooLarge, "no request here has a body"
	}
	query := r.URL.Query()
	if r.URL.Path == d.path && equal(query.Get("token"), d.token) ||
		r.URL.Path == "/" && d.takeTicket(query.Get("once")) {
		return d.welcome(w), 0, ""
	}
	end, found := d.sessionOf(r)
	if !found || !strings.HasPrefix(r.URL.Path, d.path) {
		return end, http.StatusUnauthorized, "open the URL that gatehouse dashboard printed: it has a token, and is " +
			"good for a day each time"
	}
	return end, 0, ""
}

// isOurs reports whether a Host header names this server: by its address, or 127.0.0.1 as
// localhost.
func (d *door) isOurs(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
	}
	ours, ourPort, _ := net.SplitHostPort(d.host)
	return port == ourPort && (name == ours || ours == "127.0.0.1" && name == "localhost")
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
