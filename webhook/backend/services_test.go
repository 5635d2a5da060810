// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/util/proxy"
	corev1listers "k8s.io/client-go/listers/core/v1"
	discoveryv1listers "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// cluster is the caches of a cluster's services and EndpointSlices.
type cluster struct{ services, slices cache.Indexer }

func newCluster(t testing.TB, objects ...runtime.Object) *cluster {
	t.Helper()
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	c := &cluster{cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers),
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
	for _, o := range objects {
		c.set(t, o)
	}
	return c
}

func (c *cluster) set(t testing.TB, o runtime.Object) {
	t.Helper()
	indexer := c.slices
	if _, ok := o.(*corev1.Service); ok {
		indexer = c.services
	}
	if err := indexer.Add(o); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) config(t testing.TB) backend.Config {
	t.Helper()
	slices, err := proxy.NewEndpointSliceListerGetter(discoveryv1listers.NewEndpointSliceLister(c.slices))
	if err != nil {
		t.Fatal(err)
	}
	return backend.Config{Services: corev1listers.NewServiceLister(c.services), EndpointSlices: slices}
}

// service is svc in ns, with the port.
func service(port int32, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"}, Spec: corev1.ServiceSpec{
		Type:       corev1.ServiceTypeClusterIP,
		ClusterIP:  "127.0.0.1",
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports:      []corev1.ServicePort{{Name: "https", Port: port, TargetPort: intstr.FromString("https")}},
	}}
	for _, change := range change {
		change(&s.Spec)
	}
	return s
}

// endpoint is an EndpointSlice of the service with the server in it.
func endpoint(t testing.TB, name, address string, ready *bool) *discoveryv1.EndpointSlice {
	t.Helper()
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(portOf(t, address))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
	}
}

func portOf(t testing.TB, address string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(address[strings.LastIndex(address, ":")+1:], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func reference(caBundle []byte, port *int32, path *string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{CABundle: caBundle,
		Service: &admissionregistrationv1.ServiceReference{
			Namespace: "ns", Name: "svc", Port: port, Path: path,
		}}
}

func TestServiceReference(t *testing.T) {
	leakFree(t)
	var host, uri, name string
	server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, uri, name = r.Host, r.URL.Path, r.TLS.ServerName
		webhooktest.Allow().ServeHTTP(w, r)
	}), webhooktest.Names("svc.ns.svc"))
	port := portOf(t, server.Address())
	for _, test := range []struct {
		name     string
		cluster  []runtime.Object
		port     *int32
		path     *string
		host     string
		path2    string
		contains string // of the error
	}{
		{name: "endpoint", cluster: []runtime.Object{service(443), endpoint(t, "a", server.Address(), nil)},
			host: "svc.ns.svc:443", path2: "/"},
		{name: "port and path", cluster: []runtime.Object{service(8443),
			endpoint(t, "a", server.Address(), ptr.To(true))}, port: ptr.To[int32](8443), path: ptr.To("/v/1"),
			host: "svc.ns.svc:8443", path2: "/v/1"},
		{name: "headless", cluster: []runtime.Object{service(443, func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }),
			endpoint(t, "a", server.Address(), nil)}, host: "svc.ns.svc:443", path2: "/"},
		{name: "node port", cluster: []runtime.Object{service(443,
			func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }),
			endpoint(t, "a", server.Address(), nil)}, host: "svc.ns.svc:443", path2: "/"},
		{name: "one of two is ready", cluster: []runtime.Object{service(443),
			endpoint(t, "a", webhooktest.Refusing(t), ptr.To(false)), endpoint(t, "b", server.Address(), ptr.To(true))},
			host: "svc.ns.svc:443", path2: "/"},
		{name: "cluster IP", cluster: []runtime.Object{service(port)}, port: &port, host: "svc.ns.svc:" +
			strconv.Itoa(int(port)), path2: "/"},
		{name: "external name", cluster: []runtime.Object{service(0, func(s *corev1.ServiceSpec) {
			*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
		})}, port: &port, host: "svc.ns.svc:" + strconv.Itoa(int(port)), path2: "/"},
		{name: "no service", contains: `Post "https://svc.ns.svc:443/?timeout=20s": service "svc" not found`},
		{name: "no such port", cluster: []runtime.Object{service(8443), endpoint(t, "a", server.Address(), nil)},
			contains: `no service port 443 found for service "svc"`},
		{name: "not ready", cluster: []runtime.Object{service(443), endpoint(t, "a", server.Address(), ptr.To(false))},
			contains: `no endpoints available for service "svc"`},
		{name: "headless without endpoints", cluster: []runtime.Object{service(443,
			func(s *corev1.ServiceSpec) { s.ClusterIP = "None" })},
			contains: `no endpoints available for service "svc"`},
		{name: "refusing", cluster: []runtime.Object{service(443), endpoint(t, "a", webhooktest.Refusing(t), nil)},
			contains: "connect: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := newClient(t, newPool(t, newCluster(t, test.cluster...).config(t)),
				reference(server.Authority.PEM(), test.port, test.path))
			_, err := client.Post(context.Background(), review, 20*time.Second)
			if test.contains != "" {
				if err == nil || !strings.Contains(err.Error(), test.contains) {
					t.Errorf("error %v, want %q", err, test.contains)
				}
				if statusCode(err) != 0 {
					t.Errorf("status code %d, though the webhook gave none", statusCode(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if host != test.host || uri != test.path2 || name != "svc.ns.svc" {
				t.Errorf("asked %s as %s for %s", name, host, uri)
			}
		})
	}
}

// Calls are spread over the ready endpoints, each with one connection, and follow them when they
// change.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/ip_reuse_test.go#TestWebhookConnectionPoolIPReuse b859c2d9
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/load_balance_test.go#TestWebhookLoadBalanceAcrossEndpoints 2e8c1b85
func TestEndpointsChange(t *testing.T) {
	leakFree(t)
	for name, options := range map[string][]webhooktest.Option{"h2": nil, "http1": {webhooktest.HTTP1()}} {
		t.Run(name, func(t *testing.T) {
			first := webhooktest.New(t, webhooktest.Allow(), append(options, webhooktest.Names("svc.ns.svc"))...)
			second := webhooktest.New(t, webhooktest.Allow(),
				append(options, webhooktest.Names("svc.ns.svc"), webhooktest.WithAuthority(first.Authority))...)
			c := newCluster(t, service(443), endpoint(t, "a", first.Address(), nil))
			client := newClient(t, newPool(t, c.config(t)), reference(first.Authority.PEM(), nil, nil))
			post(t, client)
			c.set(t, endpoint(t, "b", second.Address(), nil))
			for range 200 {
				post(t, client)
			}
			if first.Calls() < 20 || second.Calls() < 20 {
				t.Errorf("%d and %d calls", first.Calls(), second.Calls())
			}
			handshakes := 1
			if name == "http1" {
				handshakes = 2
			}
			if first.Handshakes() != handshakes || second.Handshakes() != handshakes {
				t.Errorf("%d and %d handshakes", first.Handshakes(), second.Handshakes())
			}
			c.set(t, endpoint(t, "a", first.Address(), ptr.To(false)))
			calls := first.Calls()
			for range 50 {
				post(t, client)
			}
			if first.Calls() != calls {
				t.Error("an endpoint was called that isn't ready")
			}
		})
	}
}

// goOn makes calls of another webhook until the test ends. All are answered, each within half of the time after
// which a handshake is given up.
func goOn(t *testing.T, bystander *backend.Client) {
	t.Helper()
	ended, calling := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(calling)
		for calls := 0; ; calls++ {
			if _, err := bystander.Post(context.Background(), review, 5*time.Second); err != nil {
				t.Errorf("another webhook's call %d: %v", calls, err)
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		<-calling
	})
}

// With one endpoint that can't be reached no call fails, and each review is sent once. Once a review has
// been sent, nothing has it sent to another endpoint. Other webhooks are called as without it.
func TestDeadEndpoints(t *testing.T) {
	leakFree(t)
	breaks := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, test := range map[string]struct {
		other func(t *testing.T) string // returns its address
		calls int
	}{
		"refuses":      {func(t *testing.T) string { return webhooktest.Refusing(t) }, 200},
		"says nothing": {func(t *testing.T) string { return webhooktest.Silent(t) }, 4},
		"has another certificate": {func(t *testing.T) string {
			return webhooktest.New(t, webhooktest.Allow(), webhooktest.Names("svc.ns.svc")).Address()
		}, 200},
	} {
		for protocol, options := range map[string][]webhooktest.Option{"h2": nil, "http1": {webhooktest.HTTP1()}} {
			for _, breaker := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/%t", name, protocol, breaker), func(t *testing.T) {
					live := webhooktest.New(t, webhooktest.Allow(), append(options, webhooktest.Names("svc.ns.svc"))...)
					config := newCluster(t, service(443), endpoint(t, "a", live.Address(), nil),
						endpoint(t, "b", test.other(t), nil)).config(t)
					config.Breaker = breaker
					pool := newPool(t, config)
					client := newClient(t, pool, reference(live.Authority.PEM(), nil, nil))
					other := webhooktest.New(t, webhooktest.Allow(), options...)
					goOn(t, newClient(t, pool, other.ClientConfig("/")))
					for range test.calls {
						post(t, client)
					}
					if live.Calls() != test.calls {
						t.Errorf("%d reviews were sent for %d calls", live.Calls(), test.calls)
					}
					live.SetHandler(breaks)
					if _, err := client.Post(t.Context(), review, 10*time.Second); err == nil ||
						live.Calls() != test.calls+1 {
						t.Errorf("a connection that breaks: %v, and %d reviews", err, live.Calls()-test.calls)
					}
				})
			}
		}
	}
	t.Run("both break", func(t *testing.T) {
		one := webhooktest.New(t, breaks, webhooktest.Names("svc.ns.svc"))
		other := webhooktest.New(t, breaks, webhooktest.Names("svc.ns.svc"), webhooktest.WithAuthority(one.Authority))
		client := newClient(t, newPool(t, newCluster(t, service(443), endpoint(t, "a", one.Address(), nil),
			endpoint(t, "b", other.Address(), nil)).config(t)), reference(one.Authority.PEM(), nil, nil))
		for range 20 {
			if _, err := client.Post(t.Context(), review, 10*time.Second); err == nil {
				t.Error("a call was answered")
			}
		}
		if n := one.Calls() + other.Calls(); n != 20 {
			t.Errorf("%d reviews were sent for 20 calls", n)
		}
	})
}

// A call for which no endpoint is called counts once.
func TestNoEndpointIsCalled(t *testing.T) {
	leakFree(t)
	authority := webhooktest.NewAuthority(t)
	one, other := webhooktest.Refusing(t), webhooktest.Refusing(t)
	config := newCluster(t, service(443), endpoint(t, "a", one, nil), endpoint(t, "b", other, nil)).config(t)
	config.Breaker = true
	client := newClient(t, newPool(t, config), reference(authority.PEM(), nil, nil))
	refused := 0
	eventually(t, "ten calls that aren't made", func() bool {
		_, err := client.Post(t.Context(), review, 10*time.Second)
		if err == nil {
			t.Fatal("a call was answered")
		}
		if _, ok := errors.AsType[*backend.NotCalledError](err); ok {
			refused++
		}
		return refused == 10
	})
	counted := int64(0)
	for _, s := range backend.NotCalled() {
		counted += s.NotMade
	}
	if counted != 10 {
		t.Errorf("%d of 10 calls are counted", counted)
	}
}

// Webhooks behind API aggregation are called through the API server, with its own identity. Source:
// k8s.io/apiserver/pkg/util/webhook/authentication.go, NewDefaultAuthenticationInfoResolverWrapper
func TestAPIServer(t *testing.T) {
	leakFree(t)
	var authorization, path string
	server := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization, path = r.Header.Get("Authorization"), r.URL.RequestURI()
		webhooktest.Allow().ServeHTTP(w, r)
	}))
	api, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host:            server.URL(""),
		BearerToken:     "loopback",
		TLSClientConfig: rest.TLSClientConfig{CAData: server.Authority.PEM()},
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: runtime.NewSimpleNegotiatedSerializer(
			runtime.SerializerInfo{})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Client.CloseIdleConnections)
	pool := newPool(t, backend.Config{APIServer: api})
	service := &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "kubernetes",
		Path: ptr.To("/apis/x/v1/y")}
	for _, cc := range []admissionregistrationv1.WebhookClientConfig{{Service: service},
		{URL: ptr.To("https://kubernetes.default.svc/apis/x/v1/y")}} {
		authorization, path = "", ""
		post(t, newClient(t, pool, cc))
		if authorization != "Bearer loopback" || path != "/apis/x/v1/y?timeout=10s" {
			t.Errorf("called %s with %q", path, authorization)
		}
	}
	server.SetHandler(webhooktest.Status(500, "text/plain", "boom"))
	if _, err := newClient(t, pool,
		admissionregistrationv1.WebhookClientConfig{Service: service}).Post(context.Background(), review,
		time.Second*20); statusCode(err) != 500 {
		t.Errorf("error %v", err)
	}
	var none *rest.RESTClient
	if _, err := newPool(t,
		backend.Config{APIServer: none}).Client(
		admissionregistrationv1.WebhookClientConfig{Service: service}); err == nil {
		t.Error("a service was resolved without services")
	}
}
