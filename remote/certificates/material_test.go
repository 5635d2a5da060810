// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/authority"
)

var (
	begin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	hosts = []string{"gatehouse.gatehouse-system.svc", "10.0.0.1"}
)

const day = 24 * time.Hour

func made(t *testing.T, stored map[string][]byte, hosts []string, now time.Time) *material {
	t.Helper()
	m, err := materialOf(stored, "gatehouse", hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// byHand is an authority that somebody made.
func byHand(t *testing.T, validity authority.Validity) (a *authority.Authority, key []byte) {
	t.Helper()
	private, err := authority.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = authority.New("by hand", private, validity); err != nil {
		t.Fatal(err)
	}
	if key, err = a.KeyPEM(); err != nil {
		t.Fatal(err)
	}
	return a, key
}

// Whatever the Secret holds, what comes of it is an authority and a certificate of it that are of
// use, and nothing is made anew that was.
func TestMaterial(t *testing.T) {
	first := made(t, nil, hosts, begin)
	handmade, handmadeKey := byHand(t, authority.Validity{NotBefore: begin.Add(-day), NotAfter: begin.Add(30 * day)})
	early, earlyKey := byHand(t, authority.Validity{NotBefore: begin.Add(10 * time.Minute),
		NotAfter: begin.Add(30 * day)})
	for name, test := range map[string]struct {
		change func(map[string][]byte)
		after  time.Duration
		hosts  []string
		// why begins with these, in order, and the bundle has as many authorities. The first of
		// them is another one than before where renewed says so.
		why     []string
		bundle  int
		renewed bool
	}{
		"unchanged":    {bundle: 1},
		"a slow clock": {after: -10 * time.Minute, bundle: 1},
		"a clock that is off": {after: -3 * time.Hour, why: []string{
			"ca.crt: it isn't valid before 2029-12-31T23:00:00Z",
			"tls.crt: it isn't valid before 2029-12-31T23:00:00Z"}, bundle: 2, renewed: true},
		"in time":      {after: 59 * day, bundle: 1},
		"near its end": {after: 61 * day, why: []string{"tls.crt: it ends at 2030-04-01T00:00:00Z"}, bundle: 1},
		"expired":      {after: 91 * day, why: []string{"tls.crt: it expired at 2030-04-01T00:00:00Z"}, bundle: 1},
		"the authority near its end": {after: 500 * day, why: []string{"ca.crt: it ends at 2032-01-01T00:00:00Z",
			"tls.crt: it expired"}, bundle: 2, renewed: true},
		"the authority expired": {after: 731 * day, why: []string{"ca.crt: it expired at 2032-01-01T00:00:00Z",
			`ca.crt: "gatehouse-ca@1893456000" has ended`, "tls.crt: it expired"}, bundle: 1, renewed: true},
		"another name": {hosts: []string{"10.0.0.1", "webhooks.example"}, why: []string{
			"tls.crt: x509: certificate is valid for gatehouse.gatehouse-system.svc, not webhooks.example"}, bundle: 1},
		"fewer names": {hosts: []string{"10.0.0.1"}, bundle: 1},
		"no authority": {change: func(d map[string][]byte) { delete(d, "ca.crt") }, why: []string{
			"ca.crt: data does not contain any valid", "tls.crt: x509"}, bundle: 1, renewed: true},
		"a garbled authority": {change: func(d map[string][]byte) { d["ca.crt"] = []byte("x") }, why: []string{
			"ca.crt: data does not contain any valid", "tls.crt: x509"}, bundle: 1, renewed: true},
		"a garbled key of the authority": {change: func(d map[string][]byte) { d["ca.key"] = []byte("x") },
			why: []string{"ca.crt: with ca.key: data does not contain a valid", "tls.crt: x509"}, bundle: 2,
			renewed: true},
		"another's key of the authority": {change: func(d map[string][]byte) { d["ca.key"] = handmadeKey },
			why: []string{"ca.crt: with ca.key: that is not the key of this certificate", "tls.crt: x509"}, bundle: 2,
			renewed: true},
		"an authority that is none": {change: func(d map[string][]byte) {
			d["ca.crt"], d["ca.key"] = d["tls.crt"], d["tls.key"]
		}, why: []string{`ca.crt: with ca.key: the certificate of "gatehouse" is not an authority's`, "tls.crt: x509"},
			bundle: 1, renewed: true},
		"a garbled certificate": {change: func(d map[string][]byte) { d["tls.crt"] = d["tls.crt"][:99] },
			why: []string{"tls.crt: tls: failed to find any PEM data"}, bundle: 1},
		"a garbled key": {change: func(d map[string][]byte) { d["tls.key"] = handmadeKey },
			why: []string{"tls.crt: tls: private key does not match"}, bundle: 1},
		"an authority by hand": {change: func(d map[string][]byte) {
			d["ca.crt"], d["ca.key"] = handmade.CertPEM(), handmadeKey
		}, why: []string{"tls.crt: x509: certificate signed by unknown authority"}, bundle: 1, renewed: true},
		"an authority by hand, and a slow clock": {change: func(d map[string][]byte) {
			d["ca.crt"], d["ca.key"] = early.CertPEM(), earlyKey
		}, why: []string{"tls.crt: x509: certificate signed by unknown authority"}, bundle: 1, renewed: true},
		"an authority by hand before the old one": {change: func(d map[string][]byte) {
			d["ca.crt"], d["ca.key"] = append(handmade.CertPEM(), d["ca.crt"]...), handmadeKey
		}, why: []string{"tls.crt: x509: certificate signed by unknown authority"}, bundle: 2, renewed: true},
		"an authority by hand after the old one": {change: func(d map[string][]byte) {
			d["ca.crt"], d["ca.key"] = append(d["ca.crt"], handmade.CertPEM()...), handmadeKey
		}, why: []string{"tls.crt: x509: certificate signed by unknown authority"}, bundle: 2, renewed: true},
	} {
		t.Run(name, func(t *testing.T) {
			stored := maps.Clone(first.data)
			if test.change != nil {
				test.change(stored)
			}
			if test.hosts == nil {
				test.hosts = hosts
			}
			now := begin.Add(test.after)
			m := made(t, stored, test.hosts, now)
			if !slices.EqualFunc(m.why, test.why, strings.HasPrefix) {
				t.Errorf("why %q, want %q", m.why, test.why)
			}
			if len(m.bundle) != test.bundle || m.bundle[0].Equal(first.bundle[0]) == test.renewed {
				t.Errorf("the bundle has %d authorities, want %d; the first one is %q", len(m.bundle), test.bundle,
					m.bundle[0].Subject.CommonName)
			}
			ofUse(t, m, append(test.hosts, hosts[1]), now)
			if again := made(t, m.data, test.hosts, now); len(again.why) > 0 {
				t.Errorf("made anew again: %q", again.why)
			}
		})
	}
}

func ofUse(t *testing.T, m *material, hosts []string, now time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(m.bundle[0])
	// also by a clock that is ten minutes slow
	for _, at := range []time.Time{now, now.Add(-10 * time.Minute)} {
		if err := verify(m.pair, roots, at); err != nil {
			t.Error(err)
		}
	}
	for _, host := range hosts {
		if err := m.pair.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if _, err := tls.X509KeyPair(m.data[corev1.TLSCertKey], m.data[corev1.TLSPrivateKeyKey]); err != nil {
		t.Error(err)
	}
	if m.bundle[0].NotAfter.Before(m.pair.Leaf.NotAfter) {
		t.Errorf("the certificate holds until %s, its authority only until %s", m.pair.Leaf.NotAfter,
			m.bundle[0].NotAfter)
	}
}
