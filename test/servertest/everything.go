// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/webhooktest"
)

//go:embed everything.yaml
var everything string

// Everything returns what can be sent to create an object of each resource that a server may serve,
// by the resource's name and group, or name, version and group. Names that aren't given are up to
// the test. Namespaced objects are meant for the namespace named everything.
func Everything(t testing.TB) map[string]map[string]any {
	t.Helper()
	// Some fields need a key of their own.
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	text := strings.NewReplacer(
		"${certificate}", strings.ReplaceAll(string(webhooktest.NewAuthority(t).PEM()), "\n", `\n`),
		"${request}", encode(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})),
		"${stub}", encode(request)).Replace(everything)
	var all map[string]map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}
