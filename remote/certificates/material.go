// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"gatehouse.dev/internal/authority"
)

const (
	authorityLifetime   = 2 * 365 * 24 * time.Hour
	certificateLifetime = 90 * 24 * time.Hour
	// clockSkew is how far before now the validity of a new certificate starts, and how far after
	// now the validity of one made elsewhere may start.
	clockSkew = time.Hour
)

// The Secret's keys besides those of its type.
const (
	authorityCert = "ca.crt"
	authorityKey  = "ca.key"
)

// renewal returns the time at which a certificate is replaced: when a third of its life is left.
func renewal(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

// renewalReason returns the reason why a certificate has to be replaced now, or "".
func renewalReason(c *x509.Certificate, now time.Time) string {
	switch {
	case now.Before(c.NotBefore.Add(-clockSkew)):
		return fmt.Sprintf("it isn't valid before %s", c.NotBefore.Format(time.RFC3339))
	case now.After(c.NotAfter):
		return fmt.Sprintf("it expired at %s", c.NotAfter.Format(time.RFC3339))
	case !now.Before(renewal(c)):
		return fmt.Sprintf("it ends at %s", c.NotAfter.Format(time.RFC3339))
	default:
		return ""
	}
}

// material is the content of the Secret.
type material struct {
	bundle []*x509.Certificate // the authorities, the one that signed pair first
	pair   *tls.Certificate
	data   map[string][]byte // as it is stored
	why    []string          // for what reasons it isn't what was stored; empty if it is
}

// materialOf returns what the Secret should hold now: the stored data, with new parts for those
// that are missing or can't be used.
func materialOf(stored map[string][]byte, name string, hosts []string, now time.Time) (*material, error) {
	m := &material{}
	signer, err := m.authority(stored, name, now)
	if err != nil {
		return nil, err
	}
	names, why := m.serving(stored, signer, hosts, now)
	m.data = map[string][]byte{authorityCert: authority.Encode(m.bundle...),
		corev1.TLSCertKey: stored[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: stored[corev1.TLSPrivateKeyKey]}
	if m.data[authorityKey], err = signer.KeyPEM(); err != nil {
		return nil, err
	}
	if why == "" {
		return m, nil
	}
	m.why = append(m.why, corev1.TLSCertKey+": "+why)
	// within its authority's
	validity := authority.Validity{NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLifetime)}
	if begin := signer.Certificate.NotBefore; begin.After(validity.NotBefore) {
		validity.NotBefore = begin
	}
	if end := signer.Certificate.NotAfter; end.Before(validity.NotAfter) {
		validity.NotAfter = end
	}
	certPEM, keyPEM, err := signer.Serving(name, names, validity)
	if err != nil {
		return nil, err
	}
	m.data[corev1.TLSCertKey], m.data[corev1.TLSPrivateKeyKey] = certPEM, keyPEM
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	m.pair = &pair
	return m, err
}

// authority returns the stored signing authority, or a new one. Other authorities stay in the
// bundle until they end.
func (m *material) authority(stored map[string][]byte, name string, now time.Time) (*authority.Authority, error) {
	signer, others, why := parsedAuthority(stored, now)
	if why != "" {
		key, err := authority.NewKey()
		if err != nil {
			return nil, err
		}
		if signer, err = authority.New(fmt.Sprintf("%s-ca@%d", name, now.Unix()), key,
			authority.Validity{NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLifetime)}); err != nil {
			return nil, err
		}
		m.why = append(m.why, authorityCert+": "+why)
	}
	m.bundle = append(m.bundle, signer.Certificate)
	for _, other := range others {
		if now.After(other.NotAfter) {
			m.why = append(m.why, fmt.Sprintf("%s: %q has ended", authorityCert, other.Subject.CommonName))
		} else if other.IsCA {
			m.bundle = append(m.bundle, other)
		}
	}
	return signer, nil
}

// parsedAuthority returns the stored signing authority and the other authorities of the bundle. If
// the signing one can't be used any more, signer is nil, why is the reason, and others has all of
// them.
func parsedAuthority(stored map[string][]byte, now time.Time) (signer *authority.Authority,
	others []*x509.Certificate, why string) {
	if len(stored) == 0 {
		return nil, nil, "there is none"
	}
	others, err := cert.ParseCertsPEM(stored[authorityCert])
	if err != nil {
		return nil, nil, err.Error()
	}
	for i, c := range others {
		if signer, err = authority.Parse(authority.Encode(c), stored[authorityKey]); err != nil {
			continue
		}
		if why := renewalReason(c, now); why != "" {
			return nil, others, why
		}
		return signer, slices.Delete(slices.Clone(others), i, i+1), ""
	}
	return nil, others, fmt.Sprintf("with %s: %v", authorityKey, err)
}

// serving uses the stored serving certificate if it can. Otherwise it returns the reason, and the
// names for a new certificate. They include the old one's names, which another replica may serve.
func (m *material) serving(stored map[string][]byte, signer *authority.Authority, hosts []string,
	now time.Time) (names []string, why string) {
	pair, err := tls.X509KeyPair(stored[corev1.TLSCertKey], stored[corev1.TLSPrivateKeyKey])
	if err != nil {
		return hosts, err.Error()
	}
	roots := x509.NewCertPool()
	roots.AddCert(signer.Certificate)
	if why := renewalReason(pair.Leaf, now); why != "" {
		return hosts, why
	}
	if err := verify(&pair, roots, now); err != nil {
		return hosts, err.Error()
	}
	names = slices.Clone(pair.Leaf.DNSNames)
	for _, ip := range pair.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	for _, host := range hosts {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			why = err.Error()
			names = append(names, host)
		}
	}
	if why == "" {
		m.pair = &pair
	}
	return names, why
}
