// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package door bounds what each address takes of a process that serves webhooks. No caller keeps out
// one of another address, and the memory stays below what the manifests give a replica.
//
// If there are more than 1,024 connections, the address that holds most loses one. Of the bytes of
// requests, and of the memory for their work, an address may hold as much as it leaves to all others. So
// alone it has half, and another one still finds room. A request without room is refused. A whole review
// waits for its turn. http.Server bounds the time. LimitListener and semaphore.Weighted of golang.org/x
// don't know addresses. The package has no promise of compatibility.
package door

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	mostBytes, mostWork = 64 << 20, 48 << 20
	requestBytes        = 8 << 10            // besides the header and the body
	firstBytes, maxBody = 4 << 10, 7<<20 + 1 // of a body: at first, and one more than the handlers of reviews accept
)

var gaveWay = metrics.NewCounter(&metrics.CounterOpts{Name: "gatehouse_webhook_gave_way_total", StabilityLevel: metrics.ALPHA,
	Help: "Connections that were closed, and requests that were refused, because their address held too much."})

// OpenPaths are the paths for kubelets and Prometheus, which have no certificate to show.
var OpenPaths = []string{"/healthz", "/livez", "/readyz", "/metrics"}

// A Door serves everything that a process serves. It is closed to reviews until Open is called.
type Door struct {
	connections connections
	bytes, work budget
	mux         atomic.Pointer[http.ServeMux]
}

// New returns a door that is closed to reviews.
func New() *Door {
	_ = legacyregistry.Register(gaveWay) // it fails if there is a door already
	d := &Door{bytes: budget{total: mostBytes, held: map[netip.Prefix]int64{}},
		work: budget{total: mostWork, held: map[netip.Prefix]int64{}}}
	d.Open(map[string]http.Handler{"/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready yet to handle reviews", http.StatusServiceUnavailable)
	})}, healthz.NamedCheck("plugins", func(*http.Request) error {
		return errors.New("the plugins aren't built: the API server hasn't answered yet")
	}))
	return d
}

// Open makes the door serve reviews, by path, and makes /readyz consult the checks.
func (d *Door) Open(reviews map[string]http.Handler, ready ...healthz.HealthChecker) {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	healthz.InstallLivezHandler(mux)
	healthz.InstallReadyzHandler(mux, append([]healthz.HealthChecker{healthz.PingHealthz}, ready...)...)
	mux.Handle("/metrics", d.inTurn(legacyregistry.Handler()))
	for path, handler := range reviews {
		mux.Handle(path, d.inTurn(handler))
	}
	d.mux.Store(mux)
}

// Listen returns a listener that accepts what l accepts, within the bounds. A door has one listener.
func (d *Door) Listen(l net.Listener) net.Listener {
	d.connections.Listener, d.connections.open = l, map[string]*connection{}
	return &d.connections
}

// Admit returns a handler that passes on a request if its address has room. It comes before all others.
func (d *Door) Admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.connections.use(r)
		address, size := addressOf(r.RemoteAddr), int64(requestBytes+len(r.RequestURI))
		for name, values := range r.Header {
			for _, value := range values {
				size += int64(len(name) + len(value))
			}
		}
		if !d.bytes.take(address, size, atOnce) {
			gaveWay.Inc()
			panic(http.ErrAbortHandler) // a status would take memory until the client reads it
		}
		defer d.bytes.give(address, size)
		next.ServeHTTP(w, r)
	})
}

var atOnce = func() chan struct{} { c := make(chan struct{}); close(c); return c }() // for those who don't wait

// ServeHTTP implements http.Handler, for requests from the handler of Admit.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.Load().ServeHTTP(w, r) }

// inTurn returns a handler that calls handler with the whole body when it is the request's turn.
func (d *Door) inTurn(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, body := addressOf(r.RemoteAddr), []byte(nil)
		defer func() { d.bytes.give(address, int64(cap(body))) }()
		for {
			size := min(max(firstBytes, 2*cap(body)), maxBody)
			if !d.bytes.take(address, int64(size-cap(body)), atOnce) {
				gaveWay.Inc()
				http.Error(w, "too many requests of this address at a time", http.StatusTooManyRequests)
				return
			}
			body = append(make([]byte, 0, size), body...)
			n, err := io.ReadFull(r.Body, body[len(body):size])
			if body = body[:len(body)+n]; err != nil || size == maxBody {
				break // a body that isn't whole isn't JSON
			}
		}
		if work := workOf(body); work > mostWork/2 {
			http.Error(w, "the review has too many objects, lists or elements", http.StatusRequestEntityTooLarge)
		} else if d.work.take(address, work, r.Context().Done()) {
			defer d.work.give(address, work)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			handler.ServeHTTP(w, r)
		}
	})
}

// workOf estimates the memory in bytes for handling a body, of which there are three copies. An object or
// a list counts 1 KiB and an element 128 bytes, as a few bytes of JSON may become a large type of Go.
func workOf(body []byte) int64 {
	if len(body) == 0 {
		return 2 << 20
	}
	work, quoted := int64(32<<10+3*len(body)), false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			work += 1 << 10
		case !quoted && c == ',':
			work += 128
		}
	}
	return work
}
