// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
)

//go:embed page
var embedded embed.FS

// Bounds, besides maxConnections, on the resources that other users of the machine can take.
const (
	maxPages      = 12
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Dashboard serves the page with one server's decisions, or with a report, to the user who has its URL.
type Dashboard struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	mirror    *mirror
	listener  net.Listener
	door      *door
	remedies  map[string]string
	// report is what is shown instead of a server's decisions; nil for those.
	report *report
}

// New returns a dashboard of the server that config leads to. It shows the decisions of one
// namespace, or all if namespace is empty. It listens on a port of 127.0.0.1, or on any port of a
// random 127.x.y.z if port is 0, and serves once Run is called. remedies say what would have to
// change for a request to pass, by the plugins' names.
func New(config *rest.Config, namespace string, port int, remedies map[string]string) (*Dashboard, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	listener, err := listen(port)
	if err != nil {
		return nil, err
	}
	return &Dashboard{
		config: config, client: client, namespace: namespace, listener: listener,
		mirror: newMirror(maxDecisions, state{State: connecting, Server: config.Host, Namespace: namespace}),
		door:   newDoor(listener.Addr().String()), remedies: remedies,
	}, nil
}

// URL returns the page's URL, with the token that opens it.
func (d *Dashboard) URL() string { return d.door.url() }

// TicketURL returns a URL that opens the page once, in the next minute. It is for the command line
// of a browser, which other users of the machine can read.
func (d *Dashboard) TicketURL() string { return d.door.ticketURL() }

// handler serves the page, and what it asks for.
func (d *Dashboard) handler() (http.Handler, error) {
	files, err := fs.Sub(embedded, "page")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	if d.report != nil {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, files, "report.html")
		})
		d.report.handle(mux)
		return d.door.openTo(mux), nil
	}
	mux.HandleFunc("GET /events", d.serveEvents)
	mux.HandleFunc("GET /decision/{namespace}/{name}", d.serveDecision)
	mux.HandleFunc("GET /configured", d.serveConfigured)
	return d.door.openTo(mux), nil
}

// Run follows the server, unless a report is shown, and serves the page until ctx ends.
func (d *Dashboard) Run(ctx context.Context) error {
	defer d.listener.Close()
	handler, err := d.handler()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	new(connections).limit(server)
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(d.listener) }()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		if d.report != nil {
			return
		}
		if err := follow(ctx, d.config, d.namespace, d.mirror); err != nil {
			ended <- err
		}
	}()
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	stop()
	server.Close()
	<-followed
	return err
}

func refuse(w http.ResponseWriter, code int, why string) {
	http.Error(w, "gatehouse dashboard: "+why, code)
}

// explained is a decision of the API, with what would have to change for its request to pass.
type explained struct {
	Decision *v1alpha1.Decision `json:"decision"`
	Remedies []why.Remedy       `json:"remedies"`
}

// serveDecision answers with one decision.
func (d *Dashboard) serveDecision(w http.ResponseWriter, r *http.Request) {
	found := d.mirror.get(r.PathValue("namespace") + "/" + r.PathValue("name"))
	if found == nil {
		refuse(w, http.StatusNotFound, "the server no longer keeps this decision")
		return
	}
	whole := *found
	whole.APIVersion, whole.Kind = v1alpha1.SchemeGroupVersion.String(), "Decision"
	respond(w, explained{&whole, why.Explain(&whole, d.remedies).Remedies})
}

func respond(w http.ResponseWriter, object any) {
	encoded, err := json.Marshal(object)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encoded) // who doesn't read it has gone
}
