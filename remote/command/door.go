package command

import (
	"errors"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	// inHand is how many bytes of reviews are worked at at a time. What comes beyond that waits: a
	// review takes several times its size of memory, and a process has only so much.
	inHand = 16 << 20
	// ofUnknownSize is what a review counts that doesn't say how large it is: a little more than
	// what is read of one.
	ofUnknownSize = 8 << 20
)

// door is all that the process serves. It is closed to reviews until the plugins are built.
type door struct {
	mux  atomic.Pointer[http.ServeMux]
	room *semaphore.Weighted
}

// openPaths are for those who have no certificate to show: kubelets and Prometheus.
var openPaths = []string{"/healthz", "/livez", "/readyz", "/metrics"}

// newDoor is a closed one.
func newDoor() *door {
	d := &door{room: semaphore.NewWeighted(inHand)}
	closed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready yet to handle reviews", http.StatusServiceUnavailable)
	})
	d.open(map[string]http.Handler{"/": closed}, healthz.NamedCheck("plugins", func(*http.Request) error {
		return errors.New("the plugins aren't built: the API server hasn't answered yet")
	}))
	return d
}

// open makes it serve reviews, by path, and go by checks at /readyz.
func (d *door) open(reviews map[string]http.Handler, ready ...healthz.HealthChecker) {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	healthz.InstallLivezHandler(mux)
	healthz.InstallReadyzHandler(mux, append([]healthz.HealthChecker{healthz.PingHealthz}, ready...)...)
	mux.Handle("/metrics", legacyregistry.Handler())
	for path, handler := range reviews {
		mux.Handle(path, d.admit(handler))
	}
	d.mux.Store(mux)
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.Load().ServeHTTP(w, r) }

// admit has a review wait until there is room for it, or nobody waits for its answer any more.
func (d *door) admit(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size < 0 || size > ofUnknownSize {
			size = ofUnknownSize
		}
		if err := d.room.Acquire(r.Context(), size); err != nil {
			http.Error(w, "too many reviews at a time", http.StatusTooManyRequests)
			return
		}
		defer d.room.Release(size)
		handler.ServeHTTP(w, r)
	})
}
