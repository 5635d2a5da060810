// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
)

// limits are the bounds of a door.
type limits struct {
	// connections and bytes bound each pool, and the strangers' share of it.
	connections, bytes shared
	// work bounds the bytes of requests that are worked at at a time, of known callers and of
	// strangers. Others wait: a review takes several times its size of memory.
	work map[bool]int64
	// request is what each request takes besides its body. turn is the least that a review counts
	// while it is worked at, and metrics the least that /metrics does.
	request, turn, metrics int64
	// silence is how long a caller may send or read nothing, and rate how many bytes a second it
	// has to send at least.
	silence time.Duration
	rate    time.Duration
	// unhealthy is how long /healthz fails.
	unhealthy time.Duration
}

type shared struct{ total, strangers int64 }

var defaults = limits{
	connections: shared{1536, 1024},
	bytes:       shared{48 << 20, 32 << 20},
	work:        map[bool]int64{true: 16 << 20, false: 8 << 20},
	request:     8 << 10,
	turn:        32 << 10,
	metrics:     1 << 20,
	silence:     5 * time.Second,
	rate:        256 << 10,
	unhealthy:   15 * time.Second,
}

// A Door serves everything that a process serves. It is closed to reviews until Open is called.
type Door struct {
	limits      limits
	callers     *Callers
	mux         atomic.Pointer[http.ServeMux]
	connections connections
	requests    *pool
	turns       map[bool]*semaphore.Weighted // of known callers and of strangers
	// failed is the last time at which a request was refused or waited that shouldn't have, in
	// nanoseconds since 1970.
	failed atomic.Int64
}

// OpenPaths are the paths for kubelets and Prometheus, which have no certificate to show.
var OpenPaths = []string{"/healthz", "/livez", "/readyz", "/metrics"}

// New returns a door that is closed to reviews.
func New(callers *Callers) *Door { return newDoor(callers, defaults) }

func newDoor(callers *Callers, l limits) *Door {
	d := &Door{limits: l, callers: callers, turns: map[bool]*semaphore.Weighted{}}
	hasty := func() { d.failed.Store(time.Now().UnixNano()) }
	d.connections.open = map[string]*member{}
	d.connections.pool = newPool(l.connections.total, l.connections.strangers, hasty)
	d.requests = newPool(l.bytes.total, l.bytes.strangers, hasty)
	for known, bytes := range l.work {
		d.turns[known] = semaphore.NewWeighted(bytes)
	}
	closed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready yet to handle reviews", http.StatusServiceUnavailable)
	})
	d.Open(map[string]http.Handler{"/": closed}, healthz.NamedCheck("plugins", func(*http.Request) error {
		return errors.New("the plugins aren't built: the API server hasn't answered yet")
	}))
	return d
}

// Open makes the door serve reviews, by path, and makes /readyz consult the checks.
func (d *Door) Open(reviews map[string]http.Handler, ready ...healthz.HealthChecker) {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux, healthz.PingHealthz, healthz.NamedCheck("callers", d.healthy))
	healthz.InstallLivezHandler(mux)
	healthz.InstallReadyzHandler(mux, append([]healthz.HealthChecker{healthz.PingHealthz}, ready...)...)
	mux.Handle("/metrics", d.inTurn(legacyregistry.Handler(), d.limits.metrics))
	for path, handler := range reviews {
		mux.Handle(path, d.inTurn(handler, d.limits.turn))
	}
	d.mux.Store(mux)
}

// healthy returns an error if ordinary reviews may not be answered.
func (d *Door) healthy(*http.Request) error {
	if since := time.Since(time.Unix(0, d.failed.Load())); since < d.limits.unhealthy {
		return fmt.Errorf("%s ago there were more callers than can be served: a review waited for %s, or gave way to "+
			"others", since.Round(time.Second), d.limits.silence)
	}
	return nil
}

// A request is a request that is being answered.
type request struct {
	member
	control    *http.ResponseController
	connection *member
	// answering reports whether its answer is being sent.
	answering atomic.Bool
}

type requestKey struct{}

// IsKnown reports whether a request that a door passes on is one of a known caller.
func IsKnown(r *http.Request) bool {
	q, ok := r.Context().Value(requestKey{}).(*request)
	return ok && q.known
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	q := &request{control: http.NewResponseController(w), connection: d.connections.find(r.RemoteAddr)}
	q.address, q.known = addressOf(r.RemoteAddr), d.callers.isKnown(r)
	if q.known {
		d.connections.pool.recognize(q.connection)
	}
	q.drop = func() {
		cancel()
		_ = q.control.SetReadDeadline(past) // if it can't be set, the server's own holds
		if q.answering.Load() {
			_ = q.control.SetWriteDeadline(past)
		}
	}
	defer d.requests.leave(&q.member)
	if !d.requests.join(&q.member, d.limits.request) {
		http.Error(w, errGone.Error(), http.StatusTooManyRequests)
		return
	}
	a := &answer{header: w.Header(), code: http.StatusOK}
	d.mux.Load().ServeHTTP(a, r.WithContext(context.WithValue(ctx, requestKey{}, q)))
	d.send(w, q, a)
}

// inTurn returns a handler that calls handler with the whole body when it is the request's turn.
// The request counts least bytes at least.
func (d *Door) inTurn(handler http.Handler, least int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.Context().Value(requestKey{}).(*request)
		var b body
		defer func() { d.requests.take(&q.member, -b.free()) }()
		err := d.receive(q, r, &b)
		if err == nil {
			done := d.connections.work(q.connection)
			defer done()
			var leave func()
			if leave, err = d.takeTurn(r.Context(), q, max(int64(b.size), least)); err == nil {
				defer leave()
			}
		}
		switch {
		case errors.Is(err, errGone):
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		case errors.Is(err, errSlow):
			http.Error(w, err.Error(), http.StatusRequestTimeout)
			return
		case err != nil:
			http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(b.reader()), int64(b.size)
		handler.ServeHTTP(w, r)
	})
}

// takeTurn waits until a request may be worked at. It gives up if the client no longer waits for the
// answer.
func (d *Door) takeTurn(ctx context.Context, q *request, size int64) (leave func(), err error) {
	late := time.AfterFunc(d.limits.silence, d.requests.onHasty)
	defer late.Stop()
	if !d.requests.change(&q.member, func() { q.waiting, q.since = true, time.Now() }) {
		return nil, errGone
	}
	turns, size := d.turns[q.known], min(size, d.limits.work[q.known])
	if err := turns.Acquire(ctx, size); err != nil {
		return nil, errGone
	}
	if !d.requests.change(&q.member, func() { q.waiting, q.working = false, 1 }) {
		turns.Release(size)
		return nil, errGone
	}
	return func() {
		turns.Release(size)
		d.requests.change(&q.member, func() { q.working, q.since = 0, time.Now() })
	}, nil
}

// An answer buffers a response until it is whole, because the client may read slowly.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header, WriteHeader and Write implement http.ResponseWriter.
func (a *answer) Header() http.Header               { return a.header }
func (a *answer) WriteHeader(code int)              { a.code = code }
func (a *answer) Write(content []byte) (int, error) { return a.body.Write(content) }

// send sends an answer for as long as the client reads it.
func (d *Door) send(w http.ResponseWriter, q *request, a *answer) {
	q.answering.Store(true)
	gone := !d.requests.take(&q.member, int64(a.body.Len()))
	within := d.limits.silence
	if gone { // it may still hear of that
		within = moment
	}
	if err := q.control.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return
	}
	if !gone && !d.requests.holds(&q.member) {
		return // its deadline is lost
	}
	a.header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes()) // if it isn't read there is nobody to tell
	_ = q.control.Flush()
}
