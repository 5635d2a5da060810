// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"
)

// defaultPort is the port of URLs and service references without one.
const defaultPort = "443"

// apiServer is the host that webhooks behind API aggregation refer to.
const apiServer = "kubernetes.default.svc:443"

// Config configures a Pool.
type Config struct {
	// KubeConfigFile names the file with the credentials for backends, the kubeConfigFile of a
	// WebhookAdmissionConfiguration. If it is empty, backends are called without credentials.
	KubeConfigFile string

	// Services and EndpointSlices resolve service references; proxy.NewEndpointSliceIndexerGetter
	// makes the latter of an informer. If they are nil, as outside of a cluster, a service reference
	// is an error.
	Services       corev1listers.ServiceLister
	EndpointSlices proxy.EndpointSliceGetter

	// Breaker says whether endpoints that can't be reached aren't called until they can. It doesn't
	// hold for those behind a proxy.
	Breaker bool

	// APIServer calls the API server with the server's own identity. It is used for webhooks behind
	// API aggregation, which refer to port 443 of service kubernetes in namespace default. If it is
	// nil, that is a service like any other.
	APIServer *rest.RESTClient
}

// Pool makes the clients of one plugin. It is safe for concurrent use.
type Pool struct {
	config      Config
	credentials webhook.AuthenticationInfoResolver
}

// NewPool returns a pool. It fails if the kubeconfig file can't be read.
func NewPool(config Config) (*Pool, error) {
	credentials, err := webhook.NewDefaultAuthenticationInfoResolver(config.KubeConfigFile)
	if err != nil {
		return nil, fmt.Errorf("kubeConfigFile: %w", err)
	}
	return &Pool{config, credentials}, nil
}

// Client returns a client for the backend that cc names. It makes no connection yet. It fails if the
// configuration is wrong: neither url nor service, a URL that isn't one, a caBundle or credentials
// that don't parse.
func (p *Pool) Client(cc admissionregistrationv1.WebhookClientConfig) (*Client, error) {
	u, err := backendURL(cc)
	if err != nil {
		return nil, err
	}
	c := newClient(u.Scheme, u.Host, u.Path)
	if api := p.config.APIServer; hostPort(u) == apiServer && api != nil && api.Client.Transport != nil {
		c.resolve = func([]string) (string, error) { return api.Post().URL().Host, nil }
		c.transport = api.Client.Transport // traces if this server does
		return c, nil
	}
	if ref := cc.Service; ref != nil {
		if p.config.Services == nil || p.config.EndpointSlices == nil {
			return nil, fmt.Errorf("service %s/%s: there are no services to be resolved here, give the webhook's url",
				ref.Namespace, ref.Name)
		}
		c.resolve = func(tried []string) (string, error) { return p.config.resolve(ref, tried) }
	}

	credentials, err := p.credentials.ClientConfigFor(hostPort(u))
	if err != nil {
		return nil, err
	}
	config, err := credentials.TransportConfig()
	if err != nil {
		return nil, err
	}
	c.anonymous = !config.HasTokenAuth() && !config.HasBasicAuth() && !config.HasCertAuth() &&
		credentials.ExecProvider == nil
	config.UserAgent = "" // it is among the headers
	if config.TLS.ServerName == "" {
		config.TLS.ServerName = u.Hostname()
	}
	config.TLS.CAData = append(config.TLS.CAData, cc.CABundle...)
	proxy, err := proxyFor(&http.Request{URL: c.url})
	if err != nil {
		return nil, err
	}
	if c.conns, err = p.share(config, proxy != nil); err != nil {
		return nil, err
	}
	wrapped, err := transport.HTTPWrappersForConfig(config, c.conns)
	if err != nil {
		return nil, err
	}
	c.transport = traced(wrapped)
	return c, nil
}

// backendURL returns the URL that cc names. A service's host is <name>.<namespace>.svc:<port>.
func backendURL(cc admissionregistrationv1.WebhookClientConfig) (*url.URL, error) {
	if ref := cc.Service; ref != nil {
		host := net.JoinHostPort(ref.Name+"."+ref.Namespace+".svc", strconv.Itoa(int(servicePort(ref))))
		return &url.URL{Scheme: "https", Host: host, Path: ptr.Deref(ref.Path, "")}, nil
	}
	if ptr.Deref(cc.URL, "") == "" {
		return nil, errors.New("webhook configuration must have either service or URL")
	}
	u, err := url.Parse(*cc.URL)
	if err != nil {
		return nil, fmt.Errorf("Unparsable URL: %w", err) //nolint:staticcheck // Kubernetes' words
	}
	if u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("webhook URL %q: desired format: https://host[/path]", u.Redacted())
	}
	return u, nil
}

// hostPort returns the host and port of an https URL.
func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), defaultPort)
	}
	return u.Host
}

// resolve returns the host and port at which the service is served now: that of an endpoint at random
// that isn't among those tried. It fails if the service doesn't exist, doesn't have the port, or has no
// such endpoint that is ready.
func (c *Config) resolve(ref *admissionregistrationv1.ServiceReference, tried []string) (string, error) {
	service, err := c.Services.Services(ref.Namespace).Get(ref.Name)
	if err != nil {
		return "", err
	}
	ownAddress := service.Spec.Type == corev1.ServiceTypeExternalName
	if !ownAddress && service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
		// If the service has no EndpointSlices, something else may route what is sent to its IP. If
		// it has some and none is ready, nothing would answer.
		all, err := c.EndpointSlices.GetEndpointSlices(ref.Namespace, ref.Name)
		if err != nil {
			return "", err
		}
		ownAddress = len(all) == 0
	}
	var u *url.URL
	if ownAddress {
		u, err = proxy.ResolveCluster(c.Services, ref.Namespace, ref.Name, servicePort(ref))
	} else {
		u, err = proxy.ResolveEndpoint(c.Services, untried{c.EndpointSlices, tried}, ref.Namespace, ref.Name,
			servicePort(ref))
	}
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// untried is an EndpointSliceGetter that leaves out endpoints whose hosts and ports have been tried.
type untried struct {
	proxy.EndpointSliceGetter
	tried []string
}

// GetEndpointSlices implements proxy.EndpointSliceGetter.
func (u untried) GetEndpointSlices(namespace, name string) ([]*discoveryv1.EndpointSlice, error) {
	all, err := u.EndpointSliceGetter.GetEndpointSlices(namespace, name)
	if err != nil || len(u.tried) == 0 {
		return all, err
	}
	left := make([]*discoveryv1.EndpointSlice, len(all))
	for i, slice := range all {
		copied := *slice
		copied.Endpoints = slices.DeleteFunc(slices.Clone(slice.Endpoints), func(e discoveryv1.Endpoint) bool {
			return slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
				return slices.Contains(u.tried, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(ptr.Deref(p.Port, 0)))))
			})
		})
		left[i] = &copied
	}
	return left, nil
}

func servicePort(ref *admissionregistrationv1.ServiceReference) int32 {
	if ptr.Deref(ref.Port, 0) == 0 {
		return 443
	}
	return *ref.Port
}

// share returns the process's connections of the identity that config gives, with or without proxies.
func (p *Pool) share(config *transport.Config, proxied bool) (*connPool, error) {
	breaks := p.config.Breaker && !proxied
	id := sha256.Sum256(fmt.Appendf(nil, "%#v %p %t %t", config.TLS, config.DialHolder, proxied, breaks))
	connPools.mu.Lock()
	defer connPools.mu.Unlock()
	conns, ok := connPools.all[id]
	if !ok {
		var err error
		if conns, err = newConnPool(config, proxied, breaks); err != nil {
			return nil, err
		}
		connPools.all[id] = conns
	}
	conns.users[p] = true
	return conns, nil
}

// Retain says which of the pool's clients are in use from now on. Connections that no pool's clients
// use are closed when their calls are done. The other clients still work: requests that began before
// may use them.
func (p *Pool) Retain(clients []*Client) {
	used := make(map[*connPool]bool, len(clients))
	for _, c := range clients {
		if c != nil {
			used[c.conns] = true
		}
	}
	connPools.mu.Lock()
	defer connPools.mu.Unlock()
	for id, conns := range connPools.all {
		if used[conns] {
			continue
		}
		delete(conns.users, p)
		if len(conns.users) == 0 {
			delete(connPools.all, id)
			conns.unused()
			conns.mu.Lock()
			conns.close()
			conns.mu.Unlock()
		}
	}
}
