// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authority is a certificate authority in memory. It signs the certificates by which
// servers and clients prove who they are. Its users keep its certificate and key.
//
// All certificates begin to be valid before they are made (see Validity), so that machines whose
// clocks are a little behind accept them.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Validity says from when until when a certificate is valid.
type Validity struct{ NotBefore, NotAfter time.Time }

// Authority signs certificates.
type Authority struct {
	// Certificate is the authority's own certificate.
	Certificate *x509.Certificate
	key         crypto.Signer
}

// NewKey returns a new key for an authority or a certificate.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// New returns a new authority with the key.
func New(name string, key crypto.Signer, validity Validity) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &Authority{Certificate: template, key: key}
	der, err := a.sign(template, key.Public(), validity)
	if err != nil {
		return nil, err
	}
	a.Certificate, err = x509.ParseCertificate(der)
	return a, err
}

// Parse returns an existing authority: the first certificate of certPEM, and its key.
func Parse(certPEM, keyPEM []byte) (*Authority, error) {
	certs, err := cert.ParseCertsPEM(certPEM)
	if err != nil {
		return nil, err
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T can't sign", parsed)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certs[0].PublicKey) {
		return nil, errors.New("that is not the key of this certificate")
	}
	if !certs[0].IsCA {
		return nil, fmt.Errorf("the certificate of %q is not an authority's", certs[0].Subject.CommonName)
	}
	return &Authority{Certificate: certs[0], key: key}, nil
}

// CertPEM returns the authority's certificate.
func (a *Authority) CertPEM() []byte { return Encode(a.Certificate) }

// KeyPEM returns the authority's key.
func (a *Authority) KeyPEM() ([]byte, error) { return keyutil.MarshalPrivateKeyToPEM(a.key) }

// Serving returns a new certificate and its key. With them, a server proves that it is any of hosts
// (names or IP addresses).
func (a *Authority) Serving(name string, hosts []string, validity Validity) (certPEM, keyPEM []byte, err error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template, validity)
}

// Client returns a new certificate and its key. With them, a client proves that it is user, in
// groups.
func (a *Authority) Client(user string, groups []string, validity Validity) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, validity)
}

func (a *Authority) issue(template *x509.Certificate, validity Validity) (certPEM, keyPEM []byte, err error) {
	key, err := NewKey()
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, key.Public(), validity)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return Encode(&x509.Certificate{Raw: der}), keyPEM, err
}

func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey, validity Validity) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	template.NotBefore, template.NotAfter = validity.NotBefore, validity.NotAfter
	return x509.CreateCertificate(rand.Reader, template, a.Certificate, public, a.key)
}

// Encode returns certificates in PEM form, one after the other.
func Encode(certs ...*x509.Certificate) []byte {
	var data []byte
	for _, c := range certs {
		data = append(data, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
	}
	return data
}
