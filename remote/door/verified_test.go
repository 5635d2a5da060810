// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package door

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"

	"gatehouse.dev/webhook/server"
)

// A caller whose token has been verified is known. The API server isn't asked about that token.
func TestVerifiedCallers(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := server.NewTokens(server.TokenConfig{Issuer: "i", KeyFiles: []string{file}, Audiences: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": "i", "aud": "a", "exp": time.Now().Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{"validatingwebhookconfiguration": map[string]any{"name": "c", "uid": "u"},
			"attestations": map[string]any{"admissionReviewAPIGroups": []string{"*"}}}}).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	known := false
	tokens.Require(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		known = NewCallers(nil, nil).isKnown(r) // without a reviewer, whom a question would reach
	})).ServeHTTP(httptest.NewRecorder(), r)
	if !known {
		t.Error("the caller isn't known")
	}
}
