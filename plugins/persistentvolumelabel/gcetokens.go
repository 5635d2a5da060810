// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
	"k8s.io/client-go/util/keyutil"

	"gatehouse.dev/internal/seconds"
)

const (
	// computeScope is the right that the plugin requests for a service account key's tokens.
	computeScope = "https://www.googleapis.com/auth/compute.readonly"
	// clockSkew is the greatest difference of two machines' clocks that the plugin allows for.
	clockSkew = 10 * time.Second
)

// A token is the right to use an API for a while. The lifetime is in seconds.
type token struct {
	AccessToken string `json:"access_token"`
	ExpiresIn   int64  `json:"expires_in"`
}

// tokens keeps a token while it is valid.
type tokens struct {
	fetch   func(context.Context) (token, error)
	lock    chan struct{} // holds one element while a goroutine uses the fields below
	current string
	expires time.Time
}

func newTokens(fetch func(context.Context) (token, error)) *tokens {
	return &tokens{fetch: fetch, lock: make(chan struct{}, 1)}
}

// get returns a token. If another request is fetching one, get waits for it, but not beyond ctx.
func (t *tokens) get(ctx context.Context) (string, error) {
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return "", fmt.Errorf("getting a token for GCE: %w", ctx.Err())
	}
	if time.Now().Before(t.expires) {
		return t.current, nil
	}
	got, err := t.fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("getting a token for GCE: %w", err)
	}
	t.current, t.expires = got.AccessToken, time.Now().Add(seconds.Duration(got.ExpiresIn)-clockSkew)
	return t.current, nil
}

// parseToken reads the answer of a token endpoint,
// https://www.rfc-editor.org/rfc/rfc6749#section-5. The metadata server answers in the same format.
func parseToken(a answer) (token, error) {
	if a.status == http.StatusOK {
		var got token
		if json.Unmarshal(a.body, &got) != nil || !isToken(got.AccessToken) || got.ExpiresIn <= 0 {
			return token{}, errors.New("the answer has no valid access_token and expires_in, check " +
				"gce.metadataServer, or token_uri in gce.credentialsFile")
		}
		return got, nil
	}
	err := fmt.Errorf("status %d", a.status)
	var refusal struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(a.body, &refusal) == nil && refusal.Error != "" {
		err = fmt.Errorf("status %d: %s", a.status, printable(refusal.Error+": "+refusal.Description))
	}
	if isTemporary(a.status) {
		return token{}, temporary{err}
	}
	return token{}, err
}

// metadataServer gets tokens from the server at address that every machine in Google Cloud has,
// https://cloud.google.com/compute/docs/metadata/overview. The tokens are for the service account
// that the machine runs as. Google's own client takes the address from the environment only.
func metadataServer(client *http.Client, address string) func(context.Context) (token, error) {
	return func(ctx context.Context) (token, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			address+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
		if err != nil {
			return token{}, err
		}
		request.Header.Set("Metadata-Flavor", "Google")
		answered, err := send(client, request)
		if err != nil {
			return token{}, err
		}
		return parseToken(answered)
	}
}

// serviceAccount gets tokens for the service account key in a file, by
// https://developers.google.com/identity/protocols/oauth2/service-account. It reads the file each
// time, because the file may have been replaced.
func serviceAccount(client *http.Client, file string) func(context.Context) (token, error) {
	return func(ctx context.Context) (token, error) {
		key, err := loadServiceAccountKey(file)
		if err != nil {
			return token{}, err
		}
		e := &exchange{ctx: ctx, client: client}
		// The package jwt signs and posts. Its error is only text, so the exchange keeps the answer.
		_, err = key.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: e})).Token()
		switch {
		case e.err != nil:
			return token{}, e.err
		case e.answer.status == 0: // nothing was sent
			return token{}, err
		}
		return parseToken(e.answer)
	}
}

// An exchange is a transport for one request. It sends the request within a context, and keeps the
// answer or the error.
type exchange struct {
	ctx    context.Context
	client *http.Client
	answer answer
	err    error
}

// RoundTrip implements http.RoundTripper.
func (e *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	if e.answer, e.err = send(e.client, request.WithContext(e.ctx)); e.err != nil {
		return nil, e.err
	}
	return &http.Response{StatusCode: e.answer.status, Body: io.NopCloser(bytes.NewReader(e.answer.body)),
		Request: request}, nil
}

// loadServiceAccountKey reads a key. An error holds nothing of the file's content but its type.
func loadServiceAccountKey(file string) (*jwt.Config, error) {
	content, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	key, err := parseServiceAccountKey(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// parseServiceAccountKey reads the file that Google Cloud makes for a service account.
func parseServiceAccountKey(content []byte) (*jwt.Config, error) {
	var key struct {
		Type         string `json:"type"`
		ClientEmail  string `json:"client_email"`
		PrivateKey   string `json:"private_key"`
		PrivateKeyID string `json:"private_key_id"`
		TokenURI     string `json:"token_uri"`
	}
	if json.Unmarshal(content, &key) != nil {
		return nil, errors.New("is not the JSON of a service account key")
	}
	if key.Type != "service_account" {
		return nil, fmt.Errorf("type is %q, must be service_account", printable(key.Type))
	}
	if key.ClientEmail == "" {
		return nil, errors.New("has no client_email")
	}
	if uri, err := url.Parse(key.TokenURI); !isBase(uri, err, "https") {
		return nil, errors.New("token_uri must be an https URL")
	}
	private, err := keyutil.ParsePrivateKeyPEM([]byte(key.PrivateKey))
	if _, isRSA := private.(*rsa.PrivateKey); err != nil || !isRSA {
		return nil, errors.New("private_key must be an RSA key in PEM")
	}
	return &jwt.Config{Email: key.ClientEmail, PrivateKey: []byte(key.PrivateKey), PrivateKeyID: key.PrivateKeyID,
		Scopes: []string{computeScope}, TokenURL: key.TokenURI}, nil
}
