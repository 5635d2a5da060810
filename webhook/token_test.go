// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/webhook/server"
)

// signer makes tokens that are good for ten minutes: t1, t2 and so on.
type signer struct {
	made atomic.Int64
	err  error
}

func (s *signer) make(ctx context.Context, _ *authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequestStatus,
	error) {
	n := s.made.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	return &authenticationv1.TokenRequestStatus{Token: fmt.Sprintf("t%d", n),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(10 * time.Minute))}, nil
}

// A token is renewed in the background after half of its time. If that fails, it is tried again every
// ten seconds, and calls fail only when the token is about to end.
func TestTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &signer{}
		token := newCallerToken(s.make, "ValidatingWebhookConfiguration", "c", "u", nobody())
		begin := time.Now()
		at := func(age time.Duration, wantToken, wantErr string, wantMade int64) {
			t.Helper()
			time.Sleep(time.Until(begin.Add(age)))
			got, err := token.get(t.Context())
			synctest.Wait()
			wantError(t, err, wantErr)
			if got != wantToken || s.made.Load() != wantMade {
				t.Errorf("after %s: token %q, %d were made, want %q and %d", age, got, s.made.Load(), wantToken, wantMade)
			}
		}
		at(0, "t1", "", 1)
		at(4*time.Minute+59*time.Second, "t1", "", 1)
		at(5*time.Minute, "t1", "", 2)
		at(5*time.Minute, "t2", "", 2)
		s.err = errors.New("the signer is away")
		at(10*time.Minute, "t2", "", 3)
		at(10*time.Minute+9*time.Second, "t2", "", 3)
		at(10*time.Minute+10*time.Second, "t2", "", 4)
		at(14*time.Minute-time.Second, "t2", "", 5)
		at(14*time.Minute, "", "the signer is away", 6)
		at(14*time.Minute, "", "the signer is away", 7)
		s.err = nil
		at(15*time.Minute, "t8", "", 8)
		at(40*time.Minute, "t9", "", 9) // after a long time without calls
	})
}

// Any number of calls at once make one token. A call waits for it as long as it has time.
func TestTokenIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := &signer{}, make(chan struct{})
		token := newCallerToken(func(ctx context.Context, spec *authenticationv1.TokenRequestSpec) (
			*authenticationv1.TokenRequestStatus, error) {
			<-slow
			return s.make(ctx, spec)
		}, "ValidatingWebhookConfiguration", "c", "u", nobody())
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if got, err := token.get(t.Context()); got != "t1" || err != nil {
					t.Errorf("token %q, error %v", got, err)
				}
			})
		}
		synctest.Wait()
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := token.get(hasty); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("token %q, error %v", got, err)
		}
		close(slow)
		calls.Wait()
	})
}

// What a webhook is shown for hours is always good, though each token ends after ten minutes.
func TestTokensStayGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token := newCallerToken(func(_ context.Context, spec *authenticationv1.TokenRequestSpec) (
			*authenticationv1.TokenRequestStatus, error) {
			end := time.Now().Add(10 * time.Minute)
			text, err := jwt.Signed(signer).Claims(map[string]any{"iss": "i", "aud": spec.Audiences, "exp": end.Unix(),
				"kubernetes.io": map[string]any{"attestations": spec.Attestations, "validatingwebhookconfiguration": map[string]any{
					"name": spec.BoundObjectRef.Name, "uid": spec.BoundObjectRef.UID}}}).CompactSerialize()
			return &authenticationv1.TokenRequestStatus{Token: text, ExpirationTimestamp: metav1.NewTime(end)}, err
		}, "ValidatingWebhookConfiguration", "c", "u", nobody())
		set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, set, 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := server.NewTokens(server.TokenConfig{Issuer: "i", KeyFiles: []string{file},
			Audiences: []string{*nobody().URL}})
		if err != nil {
			t.Fatal(err)
		}
		handler := tokens.Require(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		seen := map[string]bool{}
		for range 60 {
			shown, err := token.get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seen[shown] = true
			r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer "+shown)
			if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%s: got %d %s", time.Now(), w.Code, w.Body)
			}
			time.Sleep(3 * time.Minute)
		}
		if len(seen) < 18 {
			t.Errorf("in three hours there were %d tokens", len(seen))
		}
	})
}

// showing is a backend that keeps what it is shown.
type showing struct {
	*webhooktest.Server
	mu    sync.Mutex
	shown []string
}

func newShowing(t testing.TB) *showing {
	s := &showing{}
	allow := webhooktest.Allow()
	s.Server = webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.shown = append(s.shown, strings.Join(r.Header["Authorization"], ","))
		s.mu.Unlock()
		allow.ServeHTTP(w, r)
	}))
	return s
}

// take returns what the backend has been shown since.
func (s *showing) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := strings.Join(s.shown, "; ")
	s.shown = nil
	return shown
}

// describe returns a token that has all that is asked for.
func describe(_ context.Context, spec *authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequestStatus, error) {
	ref := spec.BoundObjectRef
	return &authenticationv1.TokenRequestStatus{Token: fmt.Sprint(ref.APIVersion, ",", ref.Kind, ",", ref.Name, ",", ref.UID,
		",", spec.Audiences, spec.Attestations), ExpirationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}, nil
}

// newTokenPlugins builds both plugins in a cluster with webhooks of both kinds. make makes their tokens.
func newTokenPlugins(t *testing.T, config string, make tokenFunc, local map[string]string,
	webhooks ...admissionregistrationv1.MutatingWebhook) *plugins {
	t.Helper()
	mutating, validating := mutatingConfiguration("m", webhooks...), validatingConfiguration("v", webhooks...)
	mutating.UID, validating.UID = "1", "2"
	cluster := plugintest.NewCluster(t, ns, mutating, validating)
	cluster.Env.WebhookToken, cluster.Env.LocalWebhooks = make, local
	if config == "" {
		return buildPlugins(t, nil, cluster)
	}
	return buildPlugins(t, strings.NewReader(`{"apiVersion":"apiserver.config.k8s.io/v1",`+
		`"kind":"WebhookAdmissionConfiguration",`+config+`}`), cluster)
}

// A webhook is shown a token that is bound to its configuration, and for its address.
func TestTokensAreShown(t *testing.T) {
	b := newShowing(t)
	p := newTokenPlugins(t, "", describe, nil, aWebhook("w", b.ClientConfig("/path")))
	wantError(t, p.admit(t, newAttributes(create, newPod(), nil)), "")
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), "")
	rest := "[" + b.URL("/path") + "] map[admissionReviewAPIGroups:[*]]"
	want := "Bearer admissionregistration.k8s.io/v1,MutatingWebhookConfiguration,m,1," + rest +
		"; Bearer admissionregistration.k8s.io/v1,ValidatingWebhookConfiguration,v,2," + rest
	if got := b.take(); got != want {
		t.Errorf("the webhooks are shown %s\nwant %s", got, want)
	}
}

// A webhook that has been told of no token, or has other credentials, or whose certificate isn't
// verified, is shown none.
func TestTokensAreNotShown(t *testing.T) {
	b, dir := newShowing(t), t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	kubeconfig := func(name, user string) string {
		return fmt.Sprintf(`"kubeConfigFile":%q`, file(name,
			`{"apiVersion":"v1","kind":"Config","users":[{"name":"*","user":`+user+`}]}`))
	}
	cert, key := b.Authority.Client("apiserver")
	if err := os.Mkdir(filepath.Join(dir, "static"), 0o700); err != nil {
		t.Fatal(err)
	}
	file("static/m.json", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1",
		"kind":"MutatingWebhookConfiguration","metadata":{"name":"z.static.k8s.io","uid":"3"},
		"webhooks":[{"name":"s.example.com","clientConfig":{"url":%q,"caBundle":%q},"admissionReviewVersions":["v1"],
		"sideEffects":"None","rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["*"]}]}]}`,
		b.URL("/"), base64Of(b.Authority.PEM())))
	hook := aWebhook("w", b.ClientConfig("/"))
	for name, test := range map[string]struct {
		config   string
		make     tokenFunc
		local    map[string]string
		webhooks []admissionregistrationv1.MutatingWebhook
		want     string
	}{
		"without the gate": {webhooks: []admissionregistrationv1.MutatingWebhook{hook}},
		"a token of the kubeconfig": {config: kubeconfig("token", `{"token":"own"}`), make: describe,
			webhooks: []admissionregistrationv1.MutatingWebhook{hook}, want: "Bearer own"},
		"a password of the kubeconfig": {config: kubeconfig("password", `{"username":"u","password":"p"}`), make: describe,
			webhooks: []admissionregistrationv1.MutatingWebhook{hook}, want: "Basic dTpw"},
		"a certificate of the kubeconfig": {config: kubeconfig("certificate", fmt.Sprintf(
			`{"client-certificate-data":%q,"client-key-data":%q}`, base64Of(cert), base64Of(key))), make: describe,
			webhooks: []admissionregistrationv1.MutatingWebhook{hook}},
		"a webhook on this machine": {make: describe, local: map[string]string{"w": b.URL("/")},
			webhooks: []admissionregistrationv1.MutatingWebhook{hook}},
		"a webhook from a file": {config: fmt.Sprintf(`"staticManifestsDir":%q`, filepath.Join(dir, "static")), make: describe},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.Calls()
			p := newTokenPlugins(t, test.config, test.make, test.local, test.webhooks...)
			wantError(t, p.admit(t, newAttributes(create, newPod(), nil)), "")
			if got := b.take(); got != test.want || b.Calls() == before {
				t.Errorf("the webhook is shown %q in %d calls, want %q", got, b.Calls()-before, test.want)
			}
		})
	}
}

// A webhook for which there is no token isn't called. Its failurePolicy decides.
func TestNoToken(t *testing.T) {
	b := newShowing(t)
	s := &signer{err: errors.New("there is no service account")}
	p := newTokenPlugins(t, "", s.make, nil, aWebhook("w", b.ClientConfig("/")))
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), `Internal error occurred: failed calling webhook "w": `+
		`failed to call webhook: Post "`+b.URL("/")+`?timeout=10s": not called, as there is no token to show it: `+
		`there is no service account`)
	p = newTokenPlugins(t, "", s.make, nil, aWebhook("w", b.ClientConfig("/"), ignoringFailures))
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil)), "")
	if b.Calls() != 0 {
		t.Errorf("the webhook was called %d times", b.Calls())
	}
}

// A configuration that is deleted and written again has another uid, and so do its tokens.
func TestTokensOfNewConfigurations(t *testing.T) {
	b, s := newShowing(t), newTestSource(t)
	s.compiler.token = describe
	for _, uid := range []string{"1", "2"} {
		c := mutatingConfiguration("c", aWebhook("w", b.ClientConfig("/")))
		c.UID = types.UID(uid)
		client, err := s.refresh(c).hooks[0].getClient()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Post(t.Context(), [][]byte{[]byte(`{"kind":"AdmissionReview","apiVersion":` +
			`"admission.k8s.io/v1","request":{"uid":"1"}}`)}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got, want := b.take(), "Configuration,c,"+uid+","; !strings.Contains(got, want) {
			t.Errorf("the token is %s, want %s", got, want)
		}
	}
}
