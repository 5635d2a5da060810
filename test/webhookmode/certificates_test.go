// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/test/servertest"
)

// given are the files of an authority's certificates.
type given struct {
	*authority.Authority
	dir      string
	validity authority.Validity
}

// newGiven writes those of an authority into a directory.
func newGiven(t *testing.T, dir string) *given {
	t.Helper()
	g := &given{dir: dir, validity: authority.Validity{NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}}
	g.Authority = newAuthority(t, g.validity)
	if err := os.WriteFile(g.file("ca.crt"), g.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

func newAuthority(t *testing.T, validity authority.Validity) *authority.Authority {
	t.Helper()
	key, err := authority.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	a, err := authority.New("given", key, validity)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (g *given) file(name string) string { return filepath.Join(g.dir, name) }

// serving writes a new certificate for a host to serve with, and is it.
func (g *given) serving(t *testing.T, host string) *x509.Certificate {
	t.Helper()
	certificate, key, err := g.Serving("given", []string{host}, g.validity)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err := errors.Join(err, os.WriteFile(g.file("tls.crt"), certificate, 0o600),
		os.WriteFile(g.file("tls.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// Where callers must show a certificate, probes need none, and reviews do.
func TestClientCertificates(t *testing.T) {
	g := newGiven(t, t.TempDir())
	r := launch(t, executable(t), "--url=https://127.0.0.1:1", "--plugins=AlwaysPullImages", "--failure-policy=Ignore",
		"--skip-reachability-check", "--client-ca-file="+g.file("ca.crt"), "--shutdown-delay-duration=0s")
	waitRegistered(t, r)
	servertest.Eventually(t, "a ready replica", func() bool {
		code, _ := r.get(t, insecure(t), "/readyz")
		return code == http.StatusOK
	})
	for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": 200, "/metrics": 200, "/": 403} {
		if code, body := r.get(t, insecure(t), path); code != want {
			t.Errorf("%s: got %d %.200s, want %d", path, code, body, want)
		}
	}
	if code, body := r.post(t, insecure(t), "/mutate/ignore", fmt.Sprintf(review, 1)); code != http.StatusForbidden {
		t.Errorf("a review without a certificate: %d %s", code, body)
	}
	certificate, key, err := g.Client("apiserver", nil, g.validity)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	client := insecure(t)
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
	if code, body := r.post(t, client, "/mutate/ignore", fmt.Sprintf(review, 1)); code != http.StatusOK {
		t.Errorf("a review with a certificate: %d %s", code, body)
	}
}
