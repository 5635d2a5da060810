// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/authority"
)

const (
	// lifetime is how long a server is known that no longer says that it is alive, in seconds. Until
	// then others say that it doesn't answer.
	lifetime = 60
	// retry is how long after a failure etcd is asked again.
	retry = time.Second
	// certificateLifetime is that of the authority and its certificates, which live as long as the
	// process.
	certificateLifetime = 10 * 365 * 24 * time.Hour
	// clockSkew is how far before now a certificate's validity starts.
	clockSkew = time.Hour
)

// A Config describes this server, and what it learns of others by.
type Config struct {
	// Etcd is the client of the etcd that the servers share, and Prefix that of their keys.
	Etcd   *clientv3.Client
	Prefix string
	// Name distinguishes the server from others over the same etcd.
	Name string
	// Address is the host and port at which the others reach it.
	Address string
	// Identity is the name of its identity Lease. IdentitySelector selects these Leases, which are
	// renewed once in RenewInterval.
	Identity, IdentitySelector string
	RenewInterval              time.Duration
	// Client reads the Leases.
	Client kubernetes.Interface
	// PathPrefix is that of the paths that servers get from each other.
	PathPrefix string
}

// A record is what a server publishes.
type record struct {
	Name      string `json:"name"`
	Address   string `json:"address"`
	Identity  string `json:"identity"`
	Authority []byte `json:"authority"` // a certificate, as DER
}

// Peers are the other servers over one etcd.
type Peers struct {
	config      Config
	own         record
	serving     [2][]byte // certificate and key, as PEM
	certificate tls.Certificate

	mu      sync.Mutex
	byKey   map[string]*Peer
	changed chan struct{} // closed and replaced when byKey changes
}

// New returns the other servers, of which none are known before Run is called.
func New(config Config) (*Peers, error) {
	now := time.Now()
	validity := authority.Validity{NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLifetime)}
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	own, err := authority.New(config.Name, key, validity)
	if err != nil {
		return nil, err
	}
	p := &Peers{config: config, byKey: map[string]*Peer{}, changed: make(chan struct{}),
		own: record{config.Name, config.Address, config.Identity, own.Certificate.Raw}}
	if p.serving[0], p.serving[1], err = own.Serving(config.Name, []string{ServerName}, validity); err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := own.Client(config.Name, nil, validity)
	if err != nil {
		return nil, err
	}
	p.certificate, err = tls.X509KeyPair(certPEM, keyPEM)
	return p, err
}

// ServingCertificate returns the certificate, and its key, that the server must present to clients
// that ask for ServerName.
func (p *Peers) ServingCertificate() (certPEM, keyPEM []byte) { return p.serving[0], p.serving[1] }

// Name returns the name of this server.
func (p *Peers) Name() string { return p.config.Name }

// Others returns the other servers by name, and a channel that is closed when they change. A server
// that was started again is another Peer.
func (p *Peers) Others() (others []*Peer, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	others = slices.Collect(maps.Values(p.byKey))
	slices.SortFunc(others, func(a, b *Peer) int { return cmp.Compare(a.Name, b.Name) })
	return others, p.changed
}

func (p *Peers) prefix() string { return path.Join("/", p.config.Prefix, "gatehouse/servers") + "/" }

// Run publishes this server, and follows what the others publish, until ctx ends. started is called
// once both have begun.
func (p *Peers) Run(ctx context.Context, started func()) {
	var begun, running sync.WaitGroup
	for _, keep := range []func(context.Context, func()) error{p.publish, p.follow} {
		begun.Add(1)
		done := sync.OnceFunc(begun.Done)
		running.Go(func() {
			defer done()
			for ctx.Err() == nil {
				if err := keep(ctx, done); err != nil && ctx.Err() == nil {
					klog.V(2).ErrorS(err, "Servers over one etcd: etcd can't be asked, and will be again")
				}
				select {
				case <-ctx.Done():
				case <-time.After(retry):
				}
			}
		})
	}
	begun.Wait()
	started()
	running.Wait()
	others, _ := p.Others()
	for _, peer := range others {
		peer.close()
	}
}

// publish tells the others of this server until ctx ends or etcd forgets it.
func (p *Peers) publish(ctx context.Context, done func()) error {
	text, err := json.Marshal(p.own)
	if err != nil {
		return err
	}
	lease, err := p.config.Etcd.Grant(ctx, lifetime)
	if err != nil {
		return err
	}
	// Others need not wait until the lease ends.
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), retry)
		defer cancel()
		_, _ = p.config.Etcd.Revoke(ending, lease.ID) // or it ends by itself
	}()
	if _, err := p.config.Etcd.Put(ctx, p.prefix()+p.own.Name, string(text), clientv3.WithLease(lease.ID)); err != nil {
		return err
	}
	done()
	answers, err := p.config.Etcd.KeepAlive(ctx, lease.ID)
	if err != nil {
		return err
	}
	for isAlive := true; isAlive; {
		_, isAlive = <-answers
	}
	return errors.New("etcd has forgotten this server")
}

// follow keeps byKey until ctx ends or the watch does.
func (p *Peers) follow(ctx context.Context, done func()) error {
	found, err := p.config.Etcd.Get(ctx, p.prefix(), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	now := map[string][]byte{}
	for _, kv := range found.Kvs {
		now[string(kv.Key)] = kv.Value
	}
	p.replace(now)
	done()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for answer := range p.config.Etcd.Watch(clientv3.WithRequireLeader(watching), p.prefix(), clientv3.WithPrefix(),
		clientv3.WithRev(found.Header.Revision+1)) {
		if err := answer.Err(); err != nil {
			return err
		}
		for _, event := range answer.Events {
			if key := string(event.Kv.Key); event.Type == clientv3.EventTypeDelete {
				delete(now, key)
			} else {
				now[key] = event.Kv.Value
			}
		}
		p.replace(now)
	}
	return errors.New("the watch ended")
}

// replace makes byKey of what is published. It keeps the Peers that are published as before.
func (p *Peers) replace(published map[string][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := false
	for key, peer := range p.byKey {
		if string(published[key]) != peer.published {
			peer.close()
			delete(p.byKey, key)
			changed = true
		}
	}
	for key, text := range published {
		if p.byKey[key] != nil || key == p.prefix()+p.own.Name {
			continue
		}
		peer, err := p.newPeer(text)
		if err != nil {
			klog.ErrorS(err, "Servers over one etcd: a server can't be called", "key", key)
			continue
		}
		p.byKey[key] = peer
		changed = true
	}
	if changed {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// newPeer returns the server that published a text.
func (p *Peers) newPeer(text []byte) (*Peer, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(r.Authority)
	if err != nil {
		return nil, err
	}
	peer := &Peer{Name: r.Name, Address: r.Address, identity: r.Identity, published: string(text),
		roots: x509.NewCertPool()}
	peer.roots.AddCert(certificate)
	peer.transport = &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    peer.roots,
			ServerName: ServerName,
			// The server may hint at other authorities, for other clients.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &p.certificate, nil
			},
		},
		DialContext:         (&net.Dialer{Timeout: AnswerTimeout}).DialContext,
		TLSHandshakeTimeout: AnswerTimeout,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 2 * AnswerTimeout, PingTimeout: AnswerTimeout},
	}
	return peer, nil
}
