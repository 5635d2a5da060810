// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
)

// Certificates connects to the backend, and returns the certificates that it shows, its own first. invalid says why
// calls don't accept them; it is nil if they do. err says why there is no connection.
//
// A local process, an API server's own address and a backend behind a proxy have no certificates to be looked at:
// all results are nil then.
func (c *Client) Certificates(ctx context.Context) (shown []*x509.Certificate, invalid, err error) {
	if c.conns == nil || c.conns.proxied {
		return nil, nil, nil
	}
	address := hostPort(c.url)
	if c.resolve != nil {
		if address, err = c.resolve(); err != nil {
			return nil, nil, err
		}
	}
	raw, err := c.conns.dialTCP(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = raw.Close() }()
	config := c.conns.tls.Clone()
	config.InsecureSkipVerify = true // they are verified below
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	shown = conn.ConnectionState().PeerCertificates
	options := x509.VerifyOptions{Roots: config.RootCAs, DNSName: config.ServerName, Intermediates: x509.NewCertPool()}
	for _, c := range shown[1:] {
		options.Intermediates.AddCert(c)
	}
	_, invalid = shown[0].Verify(options)
	return shown, invalid, nil
}
