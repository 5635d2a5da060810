// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A key belongs to its certificate, and is one that can sign what it is for.
func TestCheckKeys(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	files := map[string]string{}
	for prefix, dir := range map[string]string{"": dir, "other ": other} {
		_, err := LoadAuthority(dir)
		must(t, err)
		_, err = TokenKey(dir)
		must(t, err)
		for _, name := range []string{"ca.crt", "ca.key", "sa.key"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			files[prefix+name] = string(content)
		}
	}
	authority, err := LoadAuthority(dir)
	must(t, err)
	leaf, leafKey, err := authority.Client("alice")
	must(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(edwards)
	must(t, err)
	public, err := x509.MarshalPKIXPublicKey(edwards.Public())
	must(t, err)
	files["ed25519"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	files["public"] = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	files["leaf"], files["leaf's key"], files["garbage"], files["nothing"] = string(leaf), string(leafKey), "x", ""
	for name, test := range map[string]struct{ ca, caKey, saKey, want string }{
		"as made":                    {"ca.crt", "ca.key", "sa.key", ""},
		"none":                       {},
		"no certificate":             {"", "ca.key", "sa.key", ""},
		"no authority":               {"", "", "sa.key", ""},
		"no key":                     {"ca.crt", "", "", "ca.crt is there without ca.key"},
		"another key":                {"ca.crt", "other ca.key", "", "ca.crt with ca.key: that is not the key"},
		"no authority's certificate": {"leaf", "leaf's key", "", `ca.crt with ca.key: the certificate of "alice"`},
		"no certificate in it":       {"ca.key", "ca.key", "", "ca.crt with ca.key: "},
		"a certificate for a key":    {"", "ca.crt", "", "ca.key: "},
		"a public key":               {"", "", "public", "sa.key: "},
		"garbage":                    {"", "", "garbage", "sa.key: "},
		"nothing in it":              {"", "", "nothing", "sa.key: "},
		"a kind that tokens lack":    {"", "", "ed25519", "sa.key: a ed25519.PrivateKey can't sign tokens"},
	} {
		given := map[string][]byte{}
		for to, from := range map[string]string{"ca.crt": test.ca, "ca.key": test.caKey, "sa.key": test.saKey} {
			if from != "" {
				given[to] = []byte(files[from])
			}
		}
		err := CheckKeys(given)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An authority without one of its files, as after a kill between the two, is completed. No other half is.
func TestHalfAnAuthority(t *testing.T) {
	dir := t.TempDir()
	first, err := LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	second, err := LoadAuthority(dir)
	if err != nil {
		t.Fatalf("with a key alone: %v", err)
	}
	if !bytes.Equal(first.Certificate.RawSubjectPublicKeyInfo, second.Certificate.RawSubjectPublicKeyInfo) {
		t.Error("the certificate isn't the key's")
	}
	again, err := LoadAuthority(dir)
	if err != nil || !bytes.Equal(again.CertPEM(), second.CertPEM()) {
		t.Errorf("the authority isn't kept: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAuthority(dir); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("with a certificate alone: %v", err)
	}
}
