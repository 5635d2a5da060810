package command

import (
	"errors"
	"net/http"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
)

// door is all that the process serves. It is closed to reviews until the plugins are built.
type door struct{ mux atomic.Pointer[http.ServeMux] }

// newDoor is a closed one.
func newDoor() *door {
	d := &door{}
	d.open(nil, nil, healthz.NamedCheck("plugins", func(*http.Request) error {
		return errors.New("the plugins aren't built: the API server hasn't answered yet")
	}))
	return d
}

// open makes it serve reviews, by path, and go by checks at /readyz. seen, where not nil, is called
// when that is first asked for and says yes.
func (d *door) open(reviews map[string]http.Handler, seen func(), ready ...healthz.HealthChecker) {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	healthz.InstallLivezHandler(mux)
	healthz.InstallPathHandlerWithHealthyFunc(mux, "/readyz", seen, append([]healthz.HealthChecker{healthz.PingHealthz},
		ready...)...)
	mux.Handle("/metrics", legacyregistry.Handler())
	for path, handler := range reviews {
		mux.Handle(path, handler)
	}
	d.mux.Store(mux)
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.Load().ServeHTTP(w, r) }
