package command

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/remote/certificates"
	"gatehouse.dev/remote/registration"
)

// kept are certificates that package certificates keeps: its own, or those of files.
type kept interface {
	registration.Certificates
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Ready() error
	Run(ctx context.Context) error
}

// credentials are what a replica serves with, and what it knows of whether API servers call it.
type credentials struct {
	kept
	// makeshift is served while there is nothing better, so that probes, which verify nothing, find
	// a process that only waits for its API server alive. No API server that verifies takes it.
	makeshift *tls.Certificate

	once sync.Once
	// called is closed when the webhook configurations stand, with as many webhooks as they are to
	// have.
	called   chan struct{}
	webhooks int
}

func (o *options) newCredentials(r *registration.Options, client kubernetes.Interface) (*credentials, error) {
	c := &credentials{called: make(chan struct{}), webhooks: len(registration.Calls(r))}
	if o.certFile != "" {
		files, err := certificates.NewFiles(o.certFile, o.keyFile, o.caFile, r.Hosts(), nil)
		if err != nil {
			return nil, err
		}
		c.kept = files
		return c, nil
	}
	c.kept = certificates.NewOwn(certificates.Options{Installation: r.Installation(), Hosts: r.Hosts(), Client: client})
	var err error
	c.makeshift, err = newMakeshift(r)
	return c, err
}

// newMakeshift makes a certificate that nobody signs for.
func newMakeshift(r *registration.Options) (*tls.Certificate, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	validity := authority.Validity{NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0)}
	itself, err := authority.New(r.Name, key, validity)
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := itself.Serving(r.Name, r.Hosts(), validity)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	return &pair, err
}

// GetCertificate is a tls.Config's.
func (c *credentials) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	found, err := c.kept.GetCertificate(hello)
	if err != nil && c.makeshift != nil {
		return c.makeshift, nil
	}
	return found, err
}

// Trusted implements registration.Certificates.
func (c *credentials) Trusted(bundles ...[]byte) {
	if len(bundles) >= c.webhooks {
		c.once.Do(func() { close(c.called) })
	}
	c.kept.Trusted(bundles...)
}
