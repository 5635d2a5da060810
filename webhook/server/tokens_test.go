// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/server"
)

const (
	issuer   = "https://issuer.example.com"
	audience = "https://hook.ns.svc:443/validate"
	refused  = "webhook token verification failed\n"
)

// newKey is one that signs tokens.
func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pemOf is a public key as a file has it.
func pemOf(t testing.TB, public crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

type claims map[string]any

// with is the same claims with others; nil takes one away.
func (c claims) with(changes claims) claims {
	c = maps.Clone(c)
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
	return c
}

// bound are the private claims of a token that is bound to a configuration.
func bound(kind, name, uid string, groups ...string) claims {
	private := claims{"namespace": "kube-system", "serviceaccount": claims{"name": "webhook-auth", "uid": "1"},
		kind: claims{"name": name, "uid": uid}}
	if groups != nil {
		private["attestations"] = claims{"admissionReviewAPIGroups": groups}
	}
	return claims{"kubernetes.io": private}
}

// goodClaims are those that an API server's token has now.
func goodClaims() claims {
	now := time.Now()
	return claims{"iss": issuer, "aud": []string{audience}, "sub": "system:serviceaccount:kube-system:webhook-auth",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(10 * time.Minute).Unix()}.
		with(bound("validatingwebhookconfiguration", "c", "u", "*"))
}

// sign makes a token of claims.
func sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, c claims) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// verifier accepts tokens that the keys in a file's content verify.
func verifier(t testing.TB, content []byte) *server.Tokens {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := server.NewTokens(server.TokenConfig{Issuer: issuer, KeyFiles: []string{file},
		Audiences: []string{"https://elsewhere.example.com", audience}})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// untouched is a body that nobody may read.
type untouched struct{ t testing.TB }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// askWith posts a review with Authorization headers to a handler that requires tokens.
func askWith(t testing.TB, tokens *server.Tokens, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/validate", body)
	r.Header.Set("Content-Type", "application/json")
	r.Header["Authorization"] = headers
	w := httptest.NewRecorder()
	tokens.Require(server.Handler(allow)).ServeHTTP(w, r)
	return w
}

// Only a token of the API server, for this webhook, and good now, lets a call pass. Of another one the
// body isn't even read, and the caller doesn't learn what is wrong.
func TestTokens(t *testing.T) {
	key, other := newKey(t), newKey(t)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public := append(pemOf(t, key.Public()), pemOf(t, weak.Public())...)
	tokens := verifier(t, public)
	now, encode := time.Now(), base64.RawURLEncoding.EncodeToString
	payload, err := json.Marshal(goodClaims())
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, jose.ES256, key, goodClaims())
	parts := strings.Split(good, ".")
	full := fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2])
	changed := func(changes claims) string { return "Bearer " + sign(t, jose.ES256, key, goodClaims().with(changes)) }
	for name, test := range map[string]struct {
		headers []string
		good    bool
	}{
		"good":              {[]string{"Bearer " + good}, true},
		"good, RSA":         {[]string{"bearer " + sign(t, jose.RS256, weak, goodClaims())}, true},
		"mutating":          {[]string{changed(bound("mutatingwebhookconfiguration", "c", "u", "*"))}, true},
		"one audience":      {[]string{changed(claims{"aud": audience})}, true},
		"just expired":      {[]string{changed(claims{"exp": now.Add(-30 * time.Second).Unix()})}, true}, // clocks differ
		"none":              {nil, false},
		"empty":             {[]string{""}, false},
		"two":               {[]string{"Bearer " + good, "Bearer " + good}, false},
		"basic":             {[]string{"Basic " + good}, false},
		"no scheme":         {[]string{good}, false},
		"garbage":           {[]string{"Bearer a.b.c"}, false},
		"huge":              {[]string{"Bearer " + good + strings.Repeat("A", 1<<20)}, false},
		"other form":        {[]string{"Bearer " + full}, false},
		"other key":         {[]string{"Bearer " + sign(t, jose.ES256, other, goodClaims())}, false},
		"public key as MAC": {[]string{"Bearer " + sign(t, jose.HS256, public, goodClaims())}, false},
		"RSA-PSS":           {[]string{"Bearer " + sign(t, jose.PS256, weak, goodClaims())}, false},
		"unsigned":          {[]string{"Bearer " + encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "."}, false},
		"no signature":      {[]string{"Bearer " + parts[0] + "." + parts[1] + "."}, false},
		"other payload": {[]string{"Bearer " + parts[0] + "." + encode(bytes.Replace(payload, []byte("kube-system"),
			[]byte("kube-sistem"), 1)) + "." + parts[2]}, false},
		"expired":                   {[]string{changed(claims{"exp": now.Add(-2 * time.Minute).Unix()})}, false},
		"for ever":                  {[]string{changed(claims{"exp": nil})}, false},
		"not yet":                   {[]string{changed(claims{"nbf": now.Add(2 * time.Minute).Unix()})}, false},
		"from the future":           {[]string{changed(claims{"iat": now.Add(2 * time.Minute).Unix()})}, false},
		"other issuer":              {[]string{changed(claims{"iss": "https://other.example.com"})}, false},
		"no issuer":                 {[]string{changed(claims{"iss": nil})}, false},
		"other audience":            {[]string{changed(claims{"aud": []string{audience + "/"}})}, false},
		"the API server's audience": {[]string{changed(claims{"aud": []string{issuer}})}, false},
		"no audience":               {[]string{changed(claims{"aud": nil})}, false},
		"a pod's":                   {[]string{changed(bound("pod", "c", "u", "*"))}, false},
		"bound to nothing":          {[]string{changed(claims{"kubernetes.io": nil})}, false},
		"bound to no name":          {[]string{changed(bound("validatingwebhookconfiguration", "", "u", "*"))}, false},
		"bound to no uid":           {[]string{changed(bound("validatingwebhookconfiguration", "c", "", "*"))}, false},
		"no groups":                 {[]string{changed(bound("validatingwebhookconfiguration", "c", "u"))}, false},
		"claims of the wrong type":  {[]string{changed(claims{"kubernetes.io": "c"})}, false},
		"bound to two configurations": {[]string{changed(claims{"kubernetes.io": claims{
			"validatingwebhookconfiguration": claims{"name": "c", "uid": "u"},
			"mutatingwebhookconfiguration":   claims{"name": "c", "uid": "u"},
			"attestations":                   claims{"admissionReviewAPIGroups": []string{"*"}}}})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.good {
				if w := askWith(t, tokens, bytes.NewReader(body(t, "v1", podWeb)), test.headers...); w.Code != http.StatusOK ||
					!strings.Contains(w.Body.String(), `"allowed":true`) {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				return
			}
			if w := askWith(t, tokens, untouched{t}, test.headers...); w.Code != http.StatusUnauthorized ||
				w.Body.String() != refused || w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
			}
		})
	}
}

// A token for one API group is none for reviews of another. That is a denial, which no failurePolicy
// ignores.
func TestTokensOfGroups(t *testing.T) {
	key := newKey(t)
	tokens := verifier(t, pemOf(t, key.Public()))
	const denied = `"allowed":false,"status":{"metadata":{},"status":"Failure",` +
		`"message":"webhook token verification failed","reason":"Unauthorized","code":401}`
	for _, test := range []struct {
		groups []string
		want   string
	}{
		{[]string{"*"}, `"allowed":true`},
		{[]string{"apps", ""}, `"allowed":true`}, // the core group, of pods, has the empty name
		{[]string{"apps"}, denied},
	} {
		token := sign(t, jose.ES256, key, goodClaims().with(bound("validatingwebhookconfiguration", "c", "u",
			test.groups...)))
		w := askWith(t, tokens, bytes.NewReader(body(t, "v1", podWeb)), "Bearer "+token)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("groups %q: got %d %s, want %s", test.groups, w.Code, w.Body, test.want)
		}
	}
}

// A webhook can ask who calls.
func TestCaller(t *testing.T) {
	key := newKey(t)
	var got *server.Caller
	h := verifier(t, pemOf(t, key.Public())).Require(server.Handler(func(ctx context.Context,
		_ *admissionv1.AdmissionRequest) server.Response {
		got, _ = server.CallerFrom(ctx)
		return server.Allowed()
	}))
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body(t, "v1", podWeb)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+sign(t, jose.ES256, key, goodClaims()))
	h.ServeHTTP(httptest.NewRecorder(), r)
	if got == nil || fmt.Sprint(*got) !=
		"{system:serviceaccount:kube-system:webhook-auth ValidatingWebhookConfiguration c u [*]}" {
		t.Errorf("the caller is %v", got)
	}
	if caller, ok := server.CallerFrom(t.Context()); ok {
		t.Errorf("nobody calls, and the caller is %v", caller)
	}
}

// Keys are those that the files have: of both forms, new ones soon after they are there, and the old
// ones as long as the files can't be read.
func TestTokenKeys(t *testing.T) {
	first, second := newKey(t), newKey(t)
	set := func(key *ecdsa.PrivateKey, id string) []byte {
		content, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id,
			Algorithm: "ES256", Use: "sig"}}})
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "keys")
		write(t, file, set(first, "1"))
		tokens, err := server.NewTokens(server.TokenConfig{Issuer: issuer, KeyFiles: []string{file},
			Audiences: []string{audience}})
		if err != nil {
			t.Fatal(err)
		}
		accepts := func(when string, key *ecdsa.PrivateKey, id string, want bool) {
			t.Helper()
			token := sign(t, jose.ES256, jose.JSONWebKey{Key: key, KeyID: id}, goodClaims())
			w := askWith(t, tokens, bytes.NewReader(body(t, "v1", podWeb)), "Bearer "+token)
			if (w.Code == http.StatusOK) != want {
				t.Errorf("%s: got %d %s", when, w.Code, w.Body)
			}
		}
		accepts("a key of the set", first, "1", true)
		accepts("without an ID", first, "", true)
		accepts("with another ID", first, "2", false)
		accepts("another key", second, "1", false)
		write(t, file, pemOf(t, second.Public()))
		time.Sleep(10 * time.Second)
		accepts("a new key in PEM form", second, "2", true)
		accepts("the key that was replaced", first, "1", false)
		write(t, file, []byte("{"))
		time.Sleep(10 * time.Second)
		accepts("a file that is no good", second, "2", true)
		write(t, file, set(first, "1"))
		time.Sleep(10 * time.Second)
		accepts("a file that is good again", first, "1", true)
	})
}

func TestBadTokenConfig(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) []string {
		write(t, filepath.Join(dir, name), []byte(content))
		return []string{filepath.Join(dir, name)}
	}
	good := file("good", string(pemOf(t, newKey(t).Public())))
	for _, test := range []struct {
		config server.TokenConfig
		want   string
	}{
		{server.TokenConfig{KeyFiles: good, Audiences: []string{"a"}}, "Issuer: Required value"},
		{server.TokenConfig{Issuer: "i", Audiences: []string{"a"}}, "KeyFiles: Required value"},
		{server.TokenConfig{Issuer: "i", KeyFiles: good}, "Audiences: Required value"},
		{server.TokenConfig{Issuer: "i", KeyFiles: good, Audiences: []string{""}}, "Audiences: Required value"},
		{server.TokenConfig{Issuer: "i", KeyFiles: []string{dir + "/none"}, Audiences: []string{"a"}}, "KeyFiles[0]: open"},
		{server.TokenConfig{Issuer: "i", KeyFiles: file("empty", ""), Audiences: []string{"a"}}, "data does not contain any valid"},
		{server.TokenConfig{Issuer: "i", KeyFiles: file("no-set", "{"), Audiences: []string{"a"}}, "no JSON Web Key Set"},
		{server.TokenConfig{Issuer: "i", KeyFiles: file("no-keys", "{}"), Audiences: []string{"a"}}, "keys: Required value"},
		{server.TokenConfig{Issuer: "i", KeyFiles: file("secret", `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`),
			Audiences: []string{"a"}}, "keys[0]: no valid public key"},
	} {
		_, err := server.NewTokens(test.config)
		if err == nil || !strings.HasPrefix(err.Error(), "webhook tokens: ") || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

// clientOf is a client's certificate.
func clientOf(t *testing.T, authority *webhooktest.Authority) tls.Certificate {
	t.Helper()
	certificate, err := tls.X509KeyPair(authority.Client("apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// Over a connection, a stranger is answered before the body has come, and in both versions of HTTP. A
// client certificate doesn't replace the token, nor the token a certificate.
func TestTokensOverTLS(t *testing.T) {
	authority, f, key := webhooktest.NewAuthority(t), newFiles(t), newKey(t)
	cert, certKey := serving(t, authority)
	write(t, f.cert, cert)
	write(t, f.key, certKey)
	write(t, f.clientCA, authority.PEM())
	handler := verifier(t, pemOf(t, key.Public())).Require(server.Handler(allow))
	token := "Bearer " + sign(t, jose.ES256, key, goodClaims())
	open := start(t, &server.Server{Handler: handler, CertFile: f.cert, KeyFile: f.key})
	closed := start(t, &server.Server{Handler: handler, CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.clientCA,
		OpenPaths: []string{"/readyz"}})
	stranger, known := client(t, authority), client(t, authority, clientOf(t, authority))
	old := client(t, authority)
	old.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	for name, test := range map[string]struct {
		client  *http.Client
		address string
		token   string
		want    int
	}{
		"no token, HTTP/2":          {stranger, open, "", http.StatusUnauthorized},
		"no token, HTTP/1.1":        {old, open, "", http.StatusUnauthorized},
		"a token":                   {stranger, open, token, http.StatusOK},
		"a token, HTTP/1.1":         {old, open, token, http.StatusOK},
		"a token, no certificate":   {stranger, closed, token, http.StatusForbidden},
		"a certificate, no token":   {known, closed, "", http.StatusUnauthorized},
		"a token and a certificate": {known, closed, token, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			review := body(t, "v1", podWeb)
			var sent io.Reader = bytes.NewReader(review)
			if test.want != http.StatusOK {
				never, stop := io.Pipe() // the body never comes
				defer stop.Close()
				sent = never
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+test.address+"/", sent)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = int64(len(review))
			r.Header.Set("Content-Type", "application/json")
			if test.token != "" {
				r.Header.Set("Authorization", test.token)
			}
			begin := time.Now()
			response, err := test.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != test.want || time.Since(begin) > 10*time.Second {
				t.Errorf("status %d after %s", response.StatusCode, time.Since(begin))
			}
		})
	}
}

// Whatever a caller shows, only what has been signed lets a call pass.
func FuzzTokens(f *testing.F) {
	key := newKey(f)
	tokens := verifier(f, pemOf(f, key.Public()))
	// It is good for as long as the test may run.
	good := sign(f, jose.ES256, key, goodClaims().with(claims{"exp": time.Now().AddDate(1, 0, 0).Unix()}))
	signed := good[:strings.LastIndex(good, ".")]
	f.Add("Bearer " + good)
	f.Add("bearer " + good + ".")
	f.Add("Bearer " + signed + ".")
	f.Add("Bearer eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + ".")
	f.Add(`Bearer {"payload":"e30","signatures":[]}`)
	f.Add("Basic dTpw")
	f.Add("Bearer  ..")
	review := body(f, "v1", podWeb)
	f.Fuzz(func(t *testing.T, header string) {
		w := askWith(t, tokens, bytes.NewReader(review), header)
		_, shown, _ := strings.Cut(header, " ")
		if w.Code == http.StatusOK && shown[:strings.LastIndex(shown, ".")] != signed {
			t.Errorf("%q lets a call pass", header)
		}
		if w.Code != http.StatusOK && w.Code != http.StatusUnauthorized {
			t.Errorf("%q is answered with %d %s", header, w.Code, w.Body)
		}
	})
}
