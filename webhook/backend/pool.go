package backend

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// defaultPort is the port of URLs and service references without one.
const defaultPort = "443"

// apiServer is the reference to webhooks behind API aggregation.
const apiServer = "kubernetes.default.svc:443"

// Config is what a pool knows of the world.
type Config struct {
	// KubeConfigFile names the file with the credentials for backends, the kubeConfigFile of a
	// WebhookAdmissionConfiguration. Empty: backends are called without credentials.
	KubeConfigFile string

	// Services and EndpointSlices resolve service references; proxy.NewEndpointSliceIndexerGetter
	// makes the latter of an informer. Nil, outside of a cluster: a service reference is an error.
	Services       corev1listers.ServiceLister
	EndpointSlices proxy.EndpointSliceGetter

	// APIServer calls the API server with the server's own identity. Webhooks behind API
	// aggregation are called so; their reference is service kubernetes in namespace default, port
	// 443. Nil, or not a *rest.RESTClient: that is a service like any other.
	APIServer rest.Interface
}

// Pool makes the clients of one plugin. It is safe for concurrent use.
type Pool struct {
	config      Config
	credentials webhook.AuthenticationInfoResolver
	self        *rest.RESTClient // nil: none

	mu   sync.Mutex
	held map[*wire]bool // what this pool counts for in the wires' holders
}

// NewPool returns a pool. A kubeconfig file that can't be read is an error.
func NewPool(config Config) (*Pool, error) {
	credentials, err := webhook.NewDefaultAuthenticationInfoResolver(config.KubeConfigFile)
	if err != nil {
		return nil, fmt.Errorf("kubeConfigFile: %w", err)
	}
	p := &Pool{config: config, credentials: credentials, held: map[*wire]bool{}}
	if self, ok := config.APIServer.(*rest.RESTClient); ok && self != nil && self.Client != nil &&
		self.Client.Transport != nil {
		p.self = self
	}
	return p, nil
}

// Client returns a client for the backend that cc names. It makes no connection yet. Errors are
// those of the configuration: neither url nor service, a URL that isn't one, a caBundle or
// credentials that don't parse.
func (p *Pool) Client(cc admissionregistrationv1.WebhookClientConfig) (*Client, error) {
	switch {
	case cc.Service != nil:
		return p.service(cc)
	case cc.URL != nil && *cc.URL != "":
		return p.url(cc)
	default:
		return nil, errors.New("webhook configuration must have either service or URL")
	}
}

func (p *Pool) url(cc admissionregistrationv1.WebhookClientConfig) (*Client, error) {
	u, err := url.Parse(*cc.URL)
	if err != nil {
		return nil, fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // Kubernetes' words
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("webhook URL %q: desired format: https://host[/path]", u.Redacted())
	}
	hostPort := u.Host
	if u.Port() == "" {
		hostPort = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	c := newClient(u.Host, u.Path)
	if hostPort == apiServer && p.self != nil {
		c.callSelf(p.self)
		return c, nil
	}
	config, err := p.credentials.ClientConfigFor(hostPort)
	if err != nil {
		return nil, err
	}
	return c, p.connect(c, config, u.Hostname(), cc.CABundle)
}

func (p *Pool) service(cc admissionregistrationv1.WebhookClientConfig) (*Client, error) {
	ref := cc.Service
	port := int32(443)
	if ref.Port != nil && *ref.Port != 0 {
		port = *ref.Port
	}
	urlPath := ""
	if ref.Path != nil {
		urlPath = *ref.Path
	}
	name := ref.Name + "." + ref.Namespace + ".svc"
	hostPort := net.JoinHostPort(name, strconv.Itoa(int(port)))
	c := newClient(hostPort, urlPath)
	if hostPort == apiServer && p.self != nil {
		c.callSelf(p.self)
		return c, nil
	}
	if p.config.Services == nil || p.config.EndpointSlices == nil {
		return nil, fmt.Errorf("service %s/%s: there are no services to be resolved here, give the webhook's url",
			ref.Namespace, ref.Name)
	}
	config, err := p.credentials.ClientConfigForService(ref.Name, ref.Namespace, int(port))
	if err != nil {
		return nil, err
	}
	c.resolve = func() (string, error) {
		return resolve(p.config.Services, p.config.EndpointSlices, ref.Namespace, ref.Name, port)
	}
	return c, p.connect(c, config, name, cc.CABundle)
}

// connect gives c the way to a server that proves to be serverName to the authorities in caBundle
// (or the system's).
func (p *Pool) connect(c *Client, credentials *rest.Config, serverName string, caBundle []byte) error {
	config, err := credentials.TransportConfig()
	if err != nil {
		return err
	}
	config.UserAgent = "" // is among the headers
	if config.TLS.ServerName == "" {
		config.TLS.ServerName = serverName
	}
	if len(config.TLS.CAData) > 0 {
		caBundle = slices.Concat(config.TLS.CAData, []byte{'\n'}, caBundle)
	}
	config.TLS.CAData = caBundle
	via, err := proxyFor(&http.Request{URL: c.url})
	if err != nil {
		return err
	}
	if via != nil {
		c.resolve = nil // the proxy does it
	}
	if c.wire, err = p.hold(config, via); err != nil {
		return err
	}
	if c.transport, err = transport.HTTPWrappersForConfig(config, c.wire); err != nil {
		return err
	}
	c.traced = traced(c.transport)
	return nil
}

// hold returns the wire of the configuration, made if there is none yet in the process, and counts
// the pool among its holders.
func (p *Pool) hold(config *transport.Config, via *url.URL) (*wire, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wires.mu.Lock()
	defer wires.mu.Unlock()
	id := identify(config, via)
	w, ok := wires.all[id]
	if !ok {
		var err error
		if w, err = newWire(id, config, via); err != nil {
			return nil, err
		}
		wires.all[id] = w
	}
	if !p.held[w] {
		p.held[w] = true
		w.holders++
	}
	return w, nil
}

// Retain tells the pool which of its clients are in use from now on. Connections that no pool's
// clients use any more are closed as soon as they have no calls. A client that was let go of can
// still be used, by requests that began before say.
func (p *Pool) Retain(clients []*Client) {
	used := make(map[*wire]bool, len(clients))
	for _, c := range clients {
		if c != nil && c.wire != nil {
			used[c.wire] = true
		}
	}
	for _, w := range p.release(used) {
		w.close()
	}
}

// release gives up what is not used, and returns what nobody holds now.
func (p *Pool) release(used map[*wire]bool) []*wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	wires.mu.Lock()
	defer wires.mu.Unlock()
	var free []*wire
	for w := range p.held {
		if used[w] {
			continue
		}
		delete(p.held, w)
		if w.holders--; w.holders == 0 {
			delete(wires.all, w.id)
			free = append(free, w)
		}
	}
	return free
}

// wires are all wires of the process that some pool holds.
var wires = struct {
	mu  sync.Mutex
	all map[identity]*wire
}{all: map[identity]*wire{}}
