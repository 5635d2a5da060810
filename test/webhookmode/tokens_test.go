// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
	"gatehouse.dev/webhook/server"
)

const (
	tokenGate = "--feature-gates=APIServerWebhookAuthenticationToken=true"
	issuer    = "https://kubernetes.default.svc.cluster.local"
)

// guarded is a webhook that only the API server may call.
type guarded struct {
	*webhooktest.Server
	mu     sync.Mutex
	caller *server.Caller
	token  string
}

func newGuarded(t *testing.T, keys string) *guarded {
	t.Helper()
	g := &guarded{Server: webhooktest.New(t, http.NotFoundHandler())}
	tokens, err := server.NewTokens(server.TokenConfig{Issuer: issuer, KeyFiles: []string{keys},
		Audiences: []string{g.URL("/hook")}})
	if err != nil {
		t.Fatal(err)
	}
	decide := server.Handler(func(ctx context.Context, _ *admissionv1.AdmissionRequest) server.Response {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.caller, _ = server.CallerFrom(ctx)
		return server.Allowed().WithWarnings("the webhook was asked")
	})
	g.SetHandler(tokens.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.mu.Unlock()
		decide.ServeHTTP(w, r)
	})))
	return g
}

// shown is the token of the last call, and what it says of the caller.
func (g *guarded) shown() (string, *server.Caller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token, g.caller
}

// configuration has the webhook asked about every creation, so also about creations of tokens.
func (g *guarded) configuration(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: name + ".example.com",
			ClientConfig: g.ClientConfig("/hook"), AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
					Resources: []string{"*/*"}}}}}}}
}

// With the gate, webhooks know that the server calls them: its own, by package webhook/server, and
// `gatehouse webhook`. They refuse others. The token is nothing that anybody else accepts.
func TestTokens(t *testing.T) {
	p := servertest.NewProcess(t, tokenGate)
	p.Start(t)
	c := p.Connect(t)
	set, err := c.Client.RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := newGuarded(t, write(t, "jwks.json", string(set)))
	configurations := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := configurations.Create(t.Context(), g.configuration("c"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "the webhook to be asked", func() error {
		_, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{})
		if token, _ := g.shown(); err == nil && token == "" {
			err = fmt.Errorf("it hasn't been asked yet")
		}
		return err
	})
	token, caller := g.shown()
	if want := (&server.Caller{Subject: "system:serviceaccount:kube-system:webhook-auth",
		Kind: "ValidatingWebhookConfiguration", Name: "c", UID: made.UID, APIGroups: []string{"*"}}); !reflect.DeepEqual(caller, want) {
		t.Errorf("the caller is %v, want %v", caller, want)
	}
	account, err := c.Client.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), "webhook-auth", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("claims", func(t *testing.T) { checkClaims(t, token, g.URL("/hook"), account, made) })
	t.Run("a token of another account", func(t *testing.T) {
		accounts := c.Client.CoreV1().ServiceAccounts("default")
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// The webhook is asked about this one, too.
		if _, err := accounts.CreateToken(t.Context(), "a", &authenticationv1.TokenRequest{},
			metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("on the API server", func(t *testing.T) {
		config := rest.AnonymousClientConfig(c.Config)
		config.BearerToken = token
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("the token gives %v", err)
		}
	})
	t.Run("strangers", func(t *testing.T) {
		before := g.Calls()
		for _, authorization := range []string{"", "Bearer " + token + "A", "Bearer " + strings.Repeat("A", 1000)} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL("/hook"),
				strings.NewReader(fmt.Sprintf(review, 1)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", authorization)
			if code, body := answered(insecure(t).Do(r)); code != http.StatusUnauthorized {
				t.Errorf("%.20s: got %d %s", authorization, code, body)
			}
		}
		if g.Calls() == before {
			t.Error("nobody has called the webhook")
		}
	})
	t.Run("gatehouse webhook", func(t *testing.T) { replicaWithTokens(t, p, c, token) })
	t.Run("after the configuration", func(t *testing.T) {
		review := func() bool {
			r, err := c.Client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{g.URL("/hook")}}},
				metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return r.Status.Authenticated
		}
		if !review() {
			t.Error("the token of a webhook isn't known to the server")
		}
		if err := configurations.Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, "the token being worth nothing", func() bool { return !review() })
	})
	t.Run("without the account", func(t *testing.T) {
		if err := c.Client.CoreV1().ServiceAccounts("kube-system").Delete(t.Context(), "webhook-auth",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := configurations.Create(t.Context(), g.configuration("d"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Retry(t, "a webhook that isn't called", func() error {
			_, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, dry)
			if err == nil || !strings.Contains(err.Error(), "not called, as there is no token to show it: there is no "+
				"service account kube-system/webhook-auth: create it, or start the server again") {
				return fmt.Errorf("got %w", err)
			}
			return nil
		})
	})
	if strings.Contains(p.Log(), token[:len(token)-10]) {
		t.Error("the server's log has the token")
	}
}

// checkClaims compares the claims of a token with upstream's.
//
// Source: k8s.io/kubernetes/pkg/serviceaccount/claims.go#Claims f6993861
func checkClaims(t *testing.T, token, audience string, account *corev1.ServiceAccount,
	bound *admissionregistrationv1.ValidatingWebhookConfiguration) {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(payload, &got); err != nil {
		t.Fatal(err)
	}
	issued, _ := got["iat"].(float64)
	if age := time.Since(time.Unix(int64(issued), 0)); age < 0 || age > 5*time.Minute || got["jti"] == "" {
		t.Errorf("the token was issued %s ago, with the ID %v", age, got["jti"])
	}
	delete(got, "jti")
	want := map[string]any{
		"iss": issuer, "sub": "system:serviceaccount:kube-system:webhook-auth", "aud": []any{audience},
		"iat": issued, "nbf": issued, "exp": issued + 600,
		"kubernetes.io": map[string]any{
			"namespace":                      "kube-system",
			"serviceaccount":                 map[string]any{"name": "webhook-auth", "uid": string(account.UID)},
			"validatingwebhookconfiguration": map[string]any{"name": bound.Name, "uid": string(bound.UID)},
			"attestations":                   map[string]any{"admissionReviewAPIGroups": []any{"*"}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the claims are %v\nwant %v", got, want)
	}
}

// replicaWithTokens checks a replica that requires tokens. other is a token for another webhook.
func replicaWithTokens(t *testing.T, p *servertest.Process, c *servertest.Cluster, other string) {
	port := servertest.FreePort(t)
	r := run(t, executable(t), "--kubeconfig="+c.Kubeconfig, fmt.Sprintf("--url=https://127.0.0.1:%d", port),
		fmt.Sprintf("--secure-port=%d", port), "--plugins=AlwaysPullImages", "--service-account-issuer="+issuer,
		"--service-account-key-file="+filepath.Join(p.DataDir, "pki", "sa.key"))
	r.port = port
	waitRegistered(t, r) // so the API server has reached it
	servertest.Retry(t, "the plugin's change", func() error {
		made, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod("p"), dry)
		if err == nil && made.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
			err = fmt.Errorf("imagePullPolicy is %s", made.Spec.Containers[0].ImagePullPolicy)
		}
		return err
	})
	client := insecure(t)
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/mutate": 401, "/probe": 401,
		"/decisions": 401, "/healthz/../mutate": 401} {
		code, body := r.get(t, client, path)
		if code != want || want == 401 && strings.Contains(body, "verification") != (path != "/decisions") {
			t.Errorf("%s: got %d %.200s, want %d", path, code, body, want)
		}
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+r.address()+"/mutate",
		strings.NewReader(fmt.Sprintf(review, 1)))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Authorization", "Bearer "+other)
	if code, body := answered(client.Do(post)); code != http.StatusUnauthorized {
		t.Errorf("with a token for another webhook: %d %s", code, body)
	}
	servertest.Eventually(t, "the log to say why it was refused", func() bool {
		return strings.Contains(r.log.String(), "the token is for another audience")
	})
	r.stop(t)
	if log := r.log.String(); strings.Contains(log, other[:len(other)-10]) {
		t.Errorf("the replica's log has the token:\n%s", log)
	}
}
