// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/apiserver/pki"
)

// ownOptions are those of a server with a data directory of the test's.
func ownOptions(t *testing.T) *Options {
	t.Helper()
	o := NewOptions()
	o.DataDir = t.TempDir()
	o.apiServiceIP, o.Run.AdvertiseAddress = net.IPv4(10, 96, 0, 1), net.IPv4(127, 0, 0, 1)
	return o
}

// givenPair puts a serving certificate of somebody else's authority into a directory.
func givenPair(t *testing.T, dir string) (certPEM []byte) {
	t.Helper()
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := authority.Serving("given", []string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"apiserver.crt": certPEM, "apiserver.key": keyPEM} {
		if err := pki.WriteFile(filepath.Join(dir, name), data); err != nil {
			t.Fatal(err)
		}
	}
	return certPEM
}

// TestServingCertificate: which certificate is served, what of --cert-dir is written, and whom a
// client is told to trust.
func TestServingCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		given func(t *testing.T, o *Options) // what the user gives
		own   bool                           // whether it is served with a certificate of our authority
	}{
		"nothing is given": {func(*testing.T, *Options) {}, true},
		"an empty --cert-dir": {func(t *testing.T, o *Options) {
			o.SecureServing.ServerCert.CertDirectory = t.TempDir()
		}, true},
		"a --cert-dir with a pair": {func(t *testing.T, o *Options) {
			o.SecureServing.ServerCert.CertDirectory = t.TempDir()
			givenPair(t, o.SecureServing.ServerCert.CertDirectory)
		}, false},
		"--tls-cert-file in --cert-dir": {func(t *testing.T, o *Options) {
			dir := t.TempDir()
			o.SecureServing.ServerCert.CertDirectory = dir
			givenPair(t, dir)
			o.SecureServing.ServerCert.CertKey.CertFile = filepath.Join(dir, "apiserver.crt")
			o.SecureServing.ServerCert.CertKey.KeyFile = filepath.Join(dir, "apiserver.key")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := ownOptions(t)
			c.given(t, o)
			before := served(t, o)
			for range 2 { // the second start finds what the first has made
				o.SecureServing.ServerCert.CertKey = givenKey(o)
				if err := o.completeCertificates(); err != nil {
					t.Fatal(err)
				}
				ca, err := o.servingCA()
				if err != nil {
					t.Fatal(err)
				}
				if own := bytes.Equal(ca, o.authority.CertPEM()); own != c.own {
					t.Errorf("clients are told to trust our authority: %t, want %t", own, c.own)
				}
				if !c.own && !bytes.Equal(ca, before) {
					t.Errorf("clients are told to trust\n%s\nwant the certificate that was given:\n%s", ca, before)
				}
			}
			if dir := o.SecureServing.ServerCert.CertDirectory; dir != "" {
				want := []string{"apiserver.crt", "apiserver.key"}
				if got := names(t, dir); strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("--cert-dir has %q, want %q", got, want)
				}
				first := served(t, o)
				if err := o.completeCertificates(); err != nil || !bytes.Equal(served(t, o), first) {
					t.Errorf("the certificate in --cert-dir was made anew (%v)", err)
				}
			}
		})
	}
}

// givenKey is what the flags say, as a new start has it.
func givenKey(o *Options) (files struct{ CertFile, KeyFile string }) {
	if strings.HasPrefix(o.SecureServing.ServerCert.CertKey.CertFile, o.DataDir) {
		return files
	}
	return o.SecureServing.ServerCert.CertKey
}

// served is the certificate in --cert-dir.
func served(t *testing.T, o *Options) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.SecureServing.ServerCert.CertDirectory, "apiserver.crt"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return data
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Half of a pair is an error, and nothing is written over it. Source: upstream's CanReadCertAndKey.
func TestHalfOfAPair(t *testing.T) {
	o := ownOptions(t)
	dir := t.TempDir()
	o.SecureServing.ServerCert.CertDirectory = dir
	certPEM := givenPair(t, dir)
	if err := os.Remove(filepath.Join(dir, "apiserver.key")); err != nil {
		t.Fatal(err)
	}
	if err := o.completeCertificates(); err == nil || !strings.Contains(err.Error(), "apiserver.key") {
		t.Errorf("the error is %v, want one about apiserver.key", err)
	}
	if !bytes.Equal(served(t, o), certPEM) {
		t.Error("the certificate was overwritten")
	}
}

// A server without a data directory has an authority that is written nowhere.
func TestNothingOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	o := NewKubeAPIServerOptions()
	o.apiServiceIP, o.Run.AdvertiseAddress = net.IPv4(10, 0, 0, 1), net.IPv4(127, 0, 0, 1)
	o.SecureServing.ServerCert.CertDirectory = t.TempDir()
	certPEM := givenPair(t, o.SecureServing.ServerCert.CertDirectory)
	if err := o.completeCertificates(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(served(t, o), certPEM) {
		t.Error("the certificate in --cert-dir was overwritten")
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("the working directory has %q", got)
	}
}
