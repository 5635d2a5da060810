// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
)

const (
	// ServerName is the name by which servers call each other in TLS.
	ServerName = "peer.gatehouse.dev"
	// AnswerTimeout bounds the wait for an answer of another server.
	AnswerTimeout = 3 * time.Second
	// silence is how long a server that gave no answer in time isn't asked again, so that the client
	// of several requests doesn't wait for each.
	silence = 5 * time.Second
)

// A Peer is another server over the same etcd.
type Peer struct {
	// Name is its name, and Address its host and port.
	Name, Address string

	identity  string
	published string
	roots     *x509.CertPool
	transport *http.Transport
	silent    atomic.Int64 // until this time, in nanoseconds
}

func (p *Peer) close() { p.transport.CloseIdleConnections() }

// Transport returns a transport that makes requests of a user to the server.
func (p *Peer) Transport(u user.Info) http.RoundTripper {
	return transport.NewAuthProxyRoundTripper(u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), p.transport)
}

// Ask calls ask with a context that ends after AnswerTimeout. Its error says why there is no answer.
func (p *Peer) Ask(ctx context.Context, ask func(context.Context) error) error {
	late := fmt.Errorf("no answer within %s", AnswerTimeout)
	if time.Now().UnixNano() < p.silent.Load() {
		return late
	}
	limited, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	err := ask(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		p.silent.Store(time.Now().Add(silence).UnixNano())
		return late
	}
	if inner := (&url.Error{}); errors.As(err, &inner) {
		return inner.Err // without the URL, which nobody asked for
	}
	return err
}

// callerKey is the key of the Peer that makes a request.
type callerKey struct{}

// IsCaller reports whether another server makes the request. It is answered without asking further
// servers.
func IsCaller(ctx context.Context) bool { return ctx.Value(callerKey{}) != nil }

// Filter recognizes requests of other servers, and refuses those for other paths than the Config's.
// It belongs around authentication, which must use Authenticator.
func (p *Peers) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := p.caller(r)
		if peer == nil {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, p.config.PathPrefix) {
			http.Error(w, "servers don't ask each other for that", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, peer)))
	})
}

// caller returns the other server that makes a request, or nil if it is another client.
func (p *Peers) caller(r *http.Request) *Peer {
	if r.TLS == nil || r.TLS.ServerName != ServerName || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	others, _ := p.Others()
	for _, peer := range others {
		if _, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: peer.roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
			return peer
		}
	}
	return nil
}

// Authenticator returns an authenticator that knows requests of other servers, in which the headers
// name the user, and that leaves all other requests to next.
func Authenticator(next authenticator.Request) (authenticator.Request, error) {
	named, err := headerrequest.New([]string{"X-Remote-User"}, []string{"X-Remote-Uid"}, []string{"X-Remote-Group"},
		[]string{"X-Remote-Extra-"})
	if err != nil {
		return nil, err
	}
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if IsCaller(r.Context()) {
			return named.AuthenticateRequest(r)
		}
		return next.AuthenticateRequest(r)
	}), nil
}

// Unpublished returns the identities of API servers that are alive and don't publish themselves:
// kube-apiserver, an older Gatehouse, or one that has nothing to ask for.
func (p *Peers) Unpublished(ctx context.Context) ([]string, error) {
	leases, err := p.config.Client.CoordinationV1().Leases(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: p.config.IdentitySelector, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	known := map[string]bool{p.own.Identity: true}
	others, _ := p.Others()
	for _, peer := range others {
		known[peer.identity] = true
	}
	var unpublished []string
	for i := range leases.Items {
		lease := &leases.Items[i]
		if renewed := lease.Spec.RenewTime; !known[lease.Name] && renewed != nil &&
			time.Since(renewed.Time) < 4*p.config.RenewInterval {
			unpublished = append(unpublished, lease.Name)
		}
	}
	return unpublished, nil
}
