package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/decision/why"
)

//go:embed page
var embedded embed.FS

// What others on the machine can make the server spend.
const (
	maxConnections = 64
	maxPages       = 12
	maxHeader      = 16 << 10
	headerTimeout  = 5 * time.Second
	idleTimeout    = 2 * time.Minute
	ticketTime     = time.Minute
)

// Dashboard is the page, for who has its URL, over one server's decisions.
type Dashboard struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	mirror    *mirror
	listener  net.Listener
	host      string // host:port, as it is listened on
	token     string
	cookie    string // its name: cookies don't know of ports
	mux       *http.ServeMux
	remedies  map[string]string

	mu     sync.Mutex
	ticket string // what opens the page once, until then
	until  time.Time
}

// New listens on a port of 127.0.0.1, 0 for any, to show the decisions of the server that config
// leads to: those of one namespace, or all if it is empty. It serves once Run is called. remedies
// are what plugins say would have to change for a request to pass, by their names.
func New(config *rest.Config, namespace string, port int, remedies map[string]string) (*Dashboard, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	d := &Dashboard{
		config: config, client: client, namespace: namespace, listener: netutil.LimitListener(listener, maxConnections),
		mirror: newMirror(maxDecisions, state{State: connecting, Server: config.Host, Namespace: namespace}),
		host:   listener.Addr().String(), token: rand.Text(), mux: http.NewServeMux(), remedies: remedies,
	}
	_, boundTo, _ := net.SplitHostPort(d.host)
	d.cookie = "gatehouse-dashboard-" + boundTo
	files, err := fs.Sub(embedded, "page")
	if err != nil {
		return nil, err
	}
	d.mux.Handle("GET /", http.FileServerFS(files))
	d.mux.HandleFunc("GET /events", d.events)
	d.mux.HandleFunc("GET /decision/{namespace}/{name}", d.decision)
	d.mux.HandleFunc("GET /configured", d.configured)
	return d, nil
}

// URL is where the page is, with the token that opens it.
func (d *Dashboard) URL() string { return "http://" + d.host + "/?token=" + d.token }

// TicketURL is where the page is for who comes first, in the next minute: for the command line of a
// browser, which others on the machine can read.
func (d *Dashboard) TicketURL() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticket, d.until = rand.Text(), time.Now().Add(ticketTime)
	return "http://" + d.host + "/?once=" + d.ticket
}

// isTicket tells whether a text is the ticket that is good now, and takes it.
func (d *Dashboard) isTicket(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ticket == "" || time.Now().After(d.until) || subtle.ConstantTimeCompare([]byte(text), []byte(d.ticket)) != 1 {
		return false
	}
	d.ticket = ""
	return true
}

// Run follows the server and serves the page until ctx ends.
func (d *Dashboard) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{
		Handler: d, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(d.listener) }()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		if err := follow(ctx, d.config, d.namespace, d.mirror); err != nil {
			ended <- err
		}
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	stop()
	server.Close()
	<-followed
	return err
}

// policy is the page's Content-Security-Policy: it loads and reaches what is served here, and makes
// no HTML from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// ServeHTTP implements http.Handler: it lets in whom the page is for.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		w.Header().Set(name, value)
	}
	switch {
	case !d.isOurs(r.Host):
		// A name that resolves to 127.0.0.1 by the will of a page that has that name.
		refuse(w, http.StatusMisdirectedRequest, "this is "+d.host+", and not "+strconv.Quote(cut(r.Host, 100)))
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET")
		refuse(w, http.StatusMethodNotAllowed, "nothing can be changed here")
		return
	case r.ContentLength != 0:
		w.Header().Set("Connection", "close") // nobody waits for it
		refuse(w, http.StatusRequestEntityTooLarge, "no request here has a body")
		return
	}
	query := r.URL.Query()
	if r.URL.Path == "/" && (d.isToken(query.Get("token")) || d.isTicket(query.Get("once"))) {
		http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.token, Path: "/", HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
	} else if c, err := r.Cookie(d.cookie); err != nil || !d.isToken(c.Value) {
		refuse(w, http.StatusUnauthorized, "open the URL that gatehouse dashboard printed: it has a token")
		return
	}
	d.mux.ServeHTTP(w, r)
}

// isOurs tells whether a Host header names this server: by its address, or as localhost.
func (d *Dashboard) isOurs(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
	}
	ours, ourPort, _ := net.SplitHostPort(d.host)
	return port == ourPort && (name == ours || name == "localhost")
}

func (d *Dashboard) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(d.token)) == 1
}

func refuse(w http.ResponseWriter, code int, why string) {
	http.Error(w, "gatehouse dashboard: "+why, code)
}

// explained is one decision, as the API has it, and what would have to change for its request to
// pass.
type explained struct {
	Decision *v1alpha1.Decision `json:"decision"`
	Remedies []why.Remedy       `json:"remedies"`
}

// decision answers with one decision.
func (d *Dashboard) decision(w http.ResponseWriter, r *http.Request) {
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
