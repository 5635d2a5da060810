// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates and keys that a server with no configuration needs: its own
// authority, a serving certificate, an administrator's client certificate and the key that signs
// service account tokens.
//
// The authority and the token key are made once and kept, since what they signed must stay valid.
// The certificates under the authority are made anew at each start, so that they name the addresses
// served now and never come near their end. All files are written whole and readable by their owner
// only.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/internal/wholefile"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// clockSkew is how far before now a certificate's validity starts.
	clockSkew = 5 * time.Minute
)

// Authority signs certificates.
type Authority struct{ *authority.Authority }

// LoadAuthority reads the authority from ca.crt and ca.key in dir, or makes what isn't there. A key
// without certificate, as a server leaves that was killed before it ever served, gets one. A
// certificate without its key, or a key that is not the certificate's, is an error.
func LoadAuthority(dir string) (*Authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	if exists(certFile) {
		certPEM, err := os.ReadFile(certFile)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		keyPEM, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		a, err := authority.Parse(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %s with %s: %w", certFile, keyFile, err)
		}
		return &Authority{a}, nil
	}
	// The key first: a certificate without its key would be trusted and useless.
	if !exists(keyFile) {
		if err := makeKey(keyFile); err != nil {
			return nil, err
		}
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %s: %w", keyFile, err)
	}
	a, err := newAuthority(key)
	if err != nil {
		return nil, err
	}
	if err := WriteFile(certFile, a.CertPEM()); err != nil {
		return nil, err
	}
	return a, nil
}

// NewAuthority makes an authority without storing it.
func NewAuthority() (*Authority, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	return newAuthority(key)
}

func newAuthority(key crypto.Signer) (*Authority, error) {
	a, err := authority.New(fmt.Sprintf("gatehouse-ca@%d", time.Now().Unix()), key, lasting(authorityLifetime))
	return &Authority{a}, err
}

func makeKey(file string) error {
	key, err := authority.NewKey()
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return WriteFile(file, keyPEM)
}

// Serving makes a certificate with which a server proves that it is any of hosts (names or IP
// addresses).
func (a *Authority) Serving(name string, hosts []string) (certPEM, keyPEM []byte, err error) {
	return a.Authority.Serving(name, hosts, lasting(certificateLifetime))
}

// Client makes a certificate with which a client proves that it is user, in groups.
func (a *Authority) Client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.Authority.Client(user, groups, lasting(certificateLifetime))
}

// lasting is from a little before now.
func lasting(lifetime time.Duration) authority.Validity {
	now := time.Now()
	return authority.Validity{NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime)}
}

// TokenKey returns the file of the key that signs service account tokens, sa.key in dir, and makes
// it if it isn't there.
func TokenKey(dir string) (string, error) {
	file := filepath.Join(dir, "sa.key")
	if exists(file) {
		return file, nil
	}
	return file, makeKey(file)
}

// CheckKeys reports what is wrong with a server's authority and token key: with the contents of
// ca.crt, ca.key and sa.key, by those names. Any may be missing, but not the key of the
// certificate.
func CheckKeys(files map[string][]byte) error {
	certPEM, hasCert := files["ca.crt"]
	keyPEM, hasKey := files["ca.key"]
	switch {
	case hasCert && !hasKey:
		return errors.New("ca.crt is there without ca.key")
	case hasCert:
		if _, err := authority.Parse(certPEM, keyPEM); err != nil {
			return fmt.Errorf("ca.crt with ca.key: %w", err)
		}
	case hasKey: // a certificate is made of it
		if _, err := parseKey(keyPEM); err != nil {
			return fmt.Errorf("ca.key: %w", err)
		}
	}
	if keyPEM, ok := files["sa.key"]; ok {
		key, err := parseKey(keyPEM)
		if err != nil {
			return fmt.Errorf("sa.key: %w", err)
		}
		switch key.(type) {
		case *rsa.PrivateKey, *ecdsa.PrivateKey:
		default:
			return fmt.Errorf("sa.key: a %T can't sign tokens of service accounts", key)
		}
	}
	return nil
}

// parseKey parses a private key that can sign.
func parseKey(keyPEM []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T can't sign", key)
	}
	return signer, nil
}

// WriteFile writes data to name with mode 0600, all of it or nothing also after a crash, making the
// directory (mode 0700) if it isn't there.
func WriteFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return wholefile.Write(name, func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	})
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
