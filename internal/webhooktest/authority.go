// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooktest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// validity is how long certificates are valid: longer than any test runs.
const validity = 7 * 24 * time.Hour

// Authority signs certificates. Each server has its own, except with WithAuthority.
type Authority struct {
	t    TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(t TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "webhooktest-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &Authority{t: t, cert: template, key: key}
	cert, err := x509.ParseCertificate(a.sign(template, key))
	if err != nil {
		t.Fatalf("certificate authority: %v", err)
	}
	a.cert = cert
	return a
}

// PEM returns the authority's certificate, for a webhook's caBundle.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Serving makes a certificate for a server with these names or IP addresses. It is valid for the year
// that ends at notAfter.
func (a *Authority) Serving(notAfter time.Time, hosts ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "webhooktest"},
		NotBefore:   notAfter.AddDate(-1, 0, 0),
		NotAfter:    notAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key := newKey(a.t)
	return tls.Certificate{Certificate: [][]byte{a.sign(template, key)}, PrivateKey: key}
}

// Client makes a certificate and key for a client named user. It is valid for a week.
func (a *Authority) Client(user string) (certPEM, keyPEM []byte) {
	a.t.Helper()
	key := newKey(a.t)
	der := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatalf("client key: %v", err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER)
}

func (a *Authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		a.t.Fatalf("serial number: %v", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatalf("certificate: %v", err)
	}
	return der
}

func newKey(t TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // a Buffer takes all
	return b.Bytes()
}
