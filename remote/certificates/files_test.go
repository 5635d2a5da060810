// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/keyutil"

	"gatehouse.dev/internal/authority"
)

// Given files are followed: what they are replaced by is served once API servers trust it, and what
// can't be used isn't.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		validity := authority.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * day)}
		first, _ := byHand(t, validity)
		second, _ := byHand(t, validity)
		dir := t.TempDir()
		file := func(name string) string { return filepath.Join(dir, name) }
		write := func(name string, content []byte) {
			if err := os.WriteFile(file(name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var pair *tls.Certificate
		issue := func(a *authority.Authority) (certPEM, keyPEM []byte) {
			certPEM, keyPEM, err := a.Serving("web", hosts, validity)
			if err != nil {
				t.Fatal(err)
			}
			made, err := tls.X509KeyPair(certPEM, keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			pair = &made
			return certPEM, keyPEM
		}
		certPEM, keyPEM := issue(first)
		write("ca.crt", first.CertPEM())
		write("tls.crt", certPEM)
		write("tls.key", keyPEM)
		f, err := NewFiles(file("tls.crt"), file("tls.key"), file("ca.crt"), hosts, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		served := func(want *tls.Certificate, authorities ...*authority.Authority) {
			t.Helper()
			synctest.Wait()
			if got, err := f.GetCertificate(nil); err != nil || !got.Leaf.Equal(want.Leaf) {
				t.Errorf("another certificate is served than should be: %v", err)
			}
			var bundle []byte
			for _, a := range authorities {
				bundle = append(bundle, a.CertPEM()...)
			}
			if got, known := f.CABundle(); !known || string(got) != string(bundle) {
				t.Errorf("the bundle has %d authorities, want %d", strings.Count(string(got), "BEGIN"),
					len(authorities))
			}
		}
		served(pair, first)
		f.Trusted(first.CertPEM())
		time.Sleep(time.Minute)

		// Another certificate of the same authority is served as soon as both files are there.
		before := pair
		certPEM, keyPEM = issue(first)
		write("tls.crt", certPEM)
		time.Sleep(time.Minute)
		served(before, first)
		write("tls.key", keyPEM)
		time.Sleep(rereadInterval)
		served(pair, first)

		// One of another authority waits for the API servers.
		before = pair
		certPEM, keyPEM = issue(second)
		write("tls.crt", certPEM)
		write("tls.key", keyPEM)
		time.Sleep(time.Minute) // it can't be verified with the authority that is there yet
		served(before, first)
		write("ca.crt", second.CertPEM())
		time.Sleep(time.Minute)
		served(before, second, first)
		f.Trusted(append(second.CertPEM(), first.CertPEM()...), first.CertPEM()) // one of two configurations
		time.Sleep(time.Minute)
		served(before, second, first)
		f.Trusted(append(second.CertPEM(), first.CertPEM()...))
		time.Sleep(settling - time.Second)
		served(before, second, first)
		time.Sleep(rereadInterval)
		served(pair, second, first)
		time.Sleep(departure)
		served(pair, second)

		// Who no longer trusts it is found out.
		f.Trusted(first.CertPEM())
		if err := f.Ready(); err == nil {
			t.Error("ready, with a certificate that nobody trusts")
		}
		f.Trusted()
		if err := f.Ready(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Without a file of authorities, a certificate that is its own is replaced by others of this kind,
// and one of authorities that API servers trust anyway by others of that kind: a caBundle can't be
// for both.
func TestFilesWithoutAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		validity := authority.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * day)}
		a, _ := byHand(t, validity)
		dir := t.TempDir()
		certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		kinds := map[string]func() (certPEM, keyPEM []byte){
			"its own authority": func() (certPEM, keyPEM []byte) { return ofItself(t, validity) },
			"another's": func() (certPEM, keyPEM []byte) {
				certPEM, keyPEM, err := a.Serving("web", hosts, validity)
				if err != nil {
					t.Fatal(err)
				}
				return certPEM, keyPEM
			},
		}
		for first := range kinds {
			put := func(kind string) *x509.Certificate {
				certPEM, keyPEM := kinds[kind]()
				pair, err := tls.X509KeyPair(certPEM, keyPEM)
				if err := errors.Join(err, os.WriteFile(certFile, certPEM, 0o600),
					os.WriteFile(keyFile, keyPEM, 0o600)); err != nil {
					t.Fatal(err)
				}
				return pair.Leaf
			}
			served := put(first)
			f, err := NewFiles(certFile, keyFile, "", hosts, nil)
			if err != nil {
				t.Fatal(err)
			}
			for second := range kinds {
				bundle, _ := f.CABundle()
				f.Trusted(bundle)
				replaced := put(second)
				err := f.read()
				if second == first {
					served = replaced
				}
				if (err == nil) != (second == first) || err != nil && !strings.Contains(err.Error(),
					"name the authorities of both in --tls-ca-file") {
					t.Errorf("%s, after %s: %v", second, first, err)
				}
				bundle, _ = f.CABundle()
				f.Trusted(bundle)
				time.Sleep(settling)
				f.choose()
				if got, err := f.GetCertificate(nil); err != nil || !got.Leaf.Equal(served) {
					t.Errorf("%s, after %s: another certificate is served than should be: %v", second, first, err)
				}
			}
		}
	})
}

// ofItself is a certificate that is its own authority, with its key.
func ofItself(t *testing.T, validity authority.Validity) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := authority.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: validity.NotBefore,
		NotAfter: validity.NotAfter, DNSNames: hosts[:1], IPAddresses: []net.IP{net.ParseIP(hosts[1])}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return authority.Encode(&x509.Certificate{Raw: raw}), keyPEM
}

// Files that can't be used when the process starts are an error that names them.
func TestBadFiles(t *testing.T) {
	validity := authority.Validity{NotBefore: time.Now().Add(-2 * day), NotAfter: time.Now().Add(-day)}
	a, key := byHand(t, validity)
	other, _ := byHand(t, validity)
	certPEM, keyPEM, err := a.Serving("web", hosts, validity)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"ca.crt": a.CertPEM(), "ca.key": key, "tls.crt": certPEM,
		"tls.key": keyPEM, "other.crt": other.CertPEM(), "garbled": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		cert, key, ca, host, want string
		bundle                    bool
	}{
		{cert: "tls.crt", key: "tls.key", ca: "ca.crt", host: hosts[0], bundle: true}, // API servers say it has expired
		{cert: "tls.crt", key: "tls.key", host: hosts[0]},
		{cert: "missing", key: "tls.key", host: hosts[0], want: "missing: no such file"},
		{cert: "tls.crt", key: "ca.key", host: hosts[0], want: "ca.key: tls: private key does not match"},
		{cert: "tls.crt", key: "tls.key", host: "other", want: "tls.crt: x509: certificate is valid for"},
		{cert: "tls.crt", key: "tls.key", ca: "garbled", host: hosts[0], want: "garbled: data does not contain"},
		{cert: "tls.crt", key: "tls.key", ca: "other.crt", host: hosts[0],
			want: "other.crt: x509: certificate signed by"},
	} {
		ca := test.ca
		if ca != "" {
			ca = filepath.Join(dir, ca)
		}
		f, err := NewFiles(filepath.Join(dir, test.cert), filepath.Join(dir, test.key), ca, []string{test.host}, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
		if err == nil {
			if bundle, known := f.CABundle(); !known || (len(bundle) > 0) != test.bundle {
				t.Errorf("%+v: %s", test, bundle)
			}
		}
	}
}
