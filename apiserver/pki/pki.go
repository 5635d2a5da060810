// Package pki makes the certificates and keys that a server with no configuration needs: its own
// authority, a serving certificate, an administrator's client certificate and the key that signs
// service account tokens.
//
// The authority and the token key are made once and kept, since what they signed must stay valid.
// The certificates under the authority are made anew at each start, so that they name the addresses
// served now and never come near their end. All files are written whole and readable by their owner
// only.
package pki

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
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// clockSkew is how far back a certificate's validity starts.
	clockSkew = 5 * time.Minute
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// LoadAuthority reads the authority from ca.crt and ca.key in dir, or makes what isn't there. A key
// without certificate, as a server leaves that was killed before it ever served, gets one. A
// certificate without its key, or a key that is not the certificate's, is an error.
func LoadAuthority(dir string) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if exists(certFile) {
		certs, err := cert.CertsFromFile(certFile)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		key, err := loadKey(keyFile)
		if err != nil {
			return nil, err
		}
		if !key.PublicKey.Equal(certs[0].PublicKey) {
			return nil, fmt.Errorf("certificate authority: %s is not the key of %s", keyFile, certFile)
		}
		return &Authority{cert: certs[0], key: key}, nil
	}
	// The key first: a certificate without its key would be trusted and useless.
	if !exists(keyFile) {
		if err := makeKey(keyFile); err != nil {
			return nil, err
		}
	}
	key, err := loadKey(keyFile)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: fmt.Sprintf("gatehouse-ca@%d", time.Now().Unix())},
		NotAfter:              time.Now().Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &Authority{cert: template, key: key}
	der, err := a.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if err := WriteFile(certFile, a.CertPEM()); err != nil {
		return nil, err
	}
	return a, nil
}

func loadKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("certificate authority: %s is not an ECDSA key", file)
	}
	return private, nil
}

func makeKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return WriteFile(file, keyPEM)
}

// CertPEM is the authority's certificate.
func (a *Authority) CertPEM() []byte { return encode(a.cert.Raw) }

// Serving makes a certificate with which a server proves that it is any of hosts (names or IP
// addresses).
func (a *Authority) Serving(name string, hosts []string) (certPEM, keyPEM []byte, err error) {
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
	return a.issue(template)
}

// Client makes a certificate with which a client proves that it is user, in groups.
func (a *Authority) Client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotAfter = time.Now().Add(certificateLifetime)
	der, err := a.sign(template, key.Public())
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return encode(der), keyPEM, err
}

func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	template.NotBefore = time.Now().Add(-clockSkew)
	return x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
}

// TokenKey returns the file of the key that signs service account tokens, sa.key in dir, and makes
// it where it isn't there.
func TokenKey(dir string) (string, error) {
	file := filepath.Join(dir, "sa.key")
	if exists(file) {
		return file, nil
	}
	return file, makeKey(file)
}

// WriteFile writes data to name with mode 0600, all of it or nothing also after a crash, making the
// directory (mode 0700) where it isn't there.
func WriteFile(name string, data []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(name)+"-") // CreateTemp's mode is 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes what files a directory has outlast a crash, and their order of coming.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}
