// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"k8s.io/klog/v2"
)

// certificates makes TLS configurations of files that may change. It reads them at each handshake,
// which costs little beside the handshake itself, and needs no watch: new files are used from the next
// handshake on.
type certificates struct {
	*Server // which names the files

	mu       sync.Mutex
	current  *tls.Config
	contents [3][]byte // of the files that current was made of
	failure  string    // why the files can't be used as they are now; empty if they can
}

// newCertificates fails if the files can't be used.
func newCertificates(s *Server) (*certificates, error) {
	c := &certificates{Server: s}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// config is a tls.Config's GetConfigForClient.
func (c *certificates) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failure := ""
	if err := c.load(); err != nil {
		failure = err.Error()
	}
	if failure != c.failure { // once, not at each handshake
		if failure != "" {
			klog.ErrorS(nil, "Webhook server goes on with the certificates it had", "err", failure)
		}
		c.failure = failure
	}
	return c.current, nil
}

// load sets current, if the contents of the files have changed.
func (c *certificates) load() error {
	var contents [3][]byte
	for i, file := range []struct{ field, name string }{{"CertFile", c.CertFile}, {"KeyFile", c.KeyFile},
		{"ClientCAFile", c.ClientCAFile}} {
		if file.name == "" {
			if file.field == "ClientCAFile" || c.GetCertificate != nil {
				continue
			}
			return fmt.Errorf("%s: Required value", file.field)
		}
		data, err := os.ReadFile(file.name)
		if err != nil {
			return fmt.Errorf("%s: %w", file.field, err)
		}
		contents[i] = data
	}
	if c.current != nil && equal(c.contents, contents) {
		return nil
	}
	config := &tls.Config{
		GetCertificate: c.GetCertificate,
		NextProtos:     []string{"h2", "http/1.1"},
		// A resumed session would use the certificates of its first handshake.
		SessionTicketsDisabled: true,
	}
	if c.GetCertificate == nil {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return fmt.Errorf("CertFile %s with KeyFile %s: %w", c.CertFile, c.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.ClientCAFile != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if len(c.OpenPaths) > 0 {
			config.ClientAuth = tls.VerifyClientCertIfGiven
		}
		if !config.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return fmt.Errorf("ClientCAFile %s: no certificates in PEM form", c.ClientCAFile)
		}
	}
	c.current, c.contents = config, contents
	return nil
}

func equal(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}
