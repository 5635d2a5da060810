// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// keptCertificates are certificates of package certificates: Own or Files.
type keptCertificates interface {
	registration.Certificates
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Ready() error
	Run(ctx context.Context) error
}

// credentials holds a replica's serving certificates, and whether API servers call it.
type credentials struct {
	keptCertificates
	// makeshift is served until there is another certificate, so that probes, which verify nothing,
	// find a process alive that waits for its API server. API servers that verify refuse it.
	makeshift *tls.Certificate

	once sync.Once
	// called is closed when the webhook configurations exist with all their webhooks.
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
		c.keptCertificates = files
		return c, nil
	}
	c.keptCertificates = certificates.NewOwn(certificates.Options{Installation: r.Installation(), Hosts: r.Hosts(), Client: client})
	var err error
	c.makeshift, err = newMakeshift(r)
	return c, err
}

// newMakeshift makes a self-signed certificate.
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

// GetCertificate is for tls.Config.GetCertificate.
func (c *credentials) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	found, err := c.keptCertificates.GetCertificate(hello)
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
	c.keptCertificates.Trusted(bundles...)
}
