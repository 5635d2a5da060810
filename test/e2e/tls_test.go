// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"gatehouse.dev/apiserver/pki"
)

// newAuthority makes a certificate authority.
func newAuthority(t testing.TB) *pki.Authority {
	t.Helper()
	authority, err := pki.LoadAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// serveTLS serves handler until the test ends, with a certificate for 127.0.0.1 of the authority
// that it returns.
func serveTLS(t testing.TB, handler http.Handler) (url string, ca []byte) {
	t.Helper()
	authority := newAuthority(t)
	certPEM, keyPEM, err := authority.Serving("test", []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, authority.CertPEM()
}

// writeFile writes a file for the test and returns its name.
func writeFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
