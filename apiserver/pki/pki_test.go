package pki

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a kill between the two files leaves is completed. Nothing else that is half there is.
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
