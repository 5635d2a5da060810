// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Who a token is of and what they may do is asked of webhooks.
func TestAuthWebhooks(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if review.Spec.Token == "token-of-ann" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true,
				User: authenticationv1.UserInfo{Username: "ann", Groups: []string{"guests"}}}
		}
		answer(w, review)
	})
	mux.HandleFunc("/may", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.ResourceAttributes
		switch {
		case review.Spec.User == "ann" && a != nil && a.Resource == "configmaps" && a.Verb == "list" &&
			a.Namespace == "default":
			review.Status.Allowed = true
		case review.Spec.User == "ann" && a != nil && a.Resource == "secrets":
			review.Status.Denied, review.Status.Reason = true, "secrets are not for guests"
		}
		answer(w, review)
	})
	url, ca := serveTLS(t, mux)
	srv := serve(t, "--authorization-mode=RBAC,Webhook", "--authorization-webhook-version=v1",
		"--authentication-token-webhook-version=v1",
		"--authorization-webhook-config-file="+webhookKubeconfig(t, url+"/may", ca),
		"--authentication-token-webhook-config-file="+webhookKubeconfig(t, url+"/who", ca))
	isUser(t, srv.config, "kubernetes-admin", "system:masters")
	config := withToken(srv.config, "token-of-ann")
	isUser(t, config, "ann", "guests", "system:authenticated")
	if _, err := whoAmI(t, withToken(srv.config, "token-of-nobody")); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token that the webhook doesn't know: %v", err)
	}
	ann := kubernetes.NewForConfigOrDie(config)
	if _, err := ann.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what the webhook allows: %v", err)
	}
	if _, err := ann.CoreV1().ConfigMaps("kube-system").List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what the webhook has no opinion on: %v", err)
	}
	if _, err := ann.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "secrets are not for guests") {
		t.Errorf("what the webhook denies: %v", err)
	}
}

// Tokens of an OpenID Connect issuer, by flags and by a configuration file.
func TestOIDC(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	ca := writeFile(t, "issuer.crt", issuer.ca)
	yamlCA := strings.ReplaceAll(strings.TrimSpace(string(issuer.ca)), "\n", "\n      ")
	file := writeFile(t, "authentication.yaml", []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: `+issuer.url+`
    audiences: [gatehouse]
    certificateAuthority: |
      `+yamlCA+`
  claimMappings:
    username: {expression: "'oidc:' + claims.sub"}
    groups: {expression: "claims.roles"}
  userValidationRules:
  - {expression: "!user.username.startsWith('oidc:system')", message: not for the system}
`))
	for name, flags := range map[string][]string{
		"flags": {"--oidc-issuer-url=" + issuer.url, "--oidc-client-id=gatehouse", "--oidc-ca-file=" + ca,
			"--oidc-username-claim=sub", "--oidc-username-prefix=oidc:", "--oidc-groups-claim=roles"},
		"configuration file": {"--authentication-config=" + file},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, flags...)
			// the server gets the issuer's keys after its start
			eventually(t, startTimeout, func(context.Context) error {
				_, err := whoAmI(t, withToken(srv.config, issuer.token(t, nil)))
				return err
			})
			isUser(t, withToken(srv.config, issuer.token(t, nil)), "oidc:carla", "gardeners", "system:authenticated")
			for what, change := range map[string]map[string]any{
				"for another audience": {"aud": "others"},
				"of another issuer":    {"iss": "https://elsewhere.example"},
				"that has expired":     {"exp": time.Now().Add(-time.Minute).Unix()},
			} {
				if _, err := whoAmI(t, withToken(srv.config, issuer.token(t, change))); !apierrors.IsUnauthorized(err) {
					t.Errorf("with a token %s: %v", what, err)
				}
			}
			forged := startIssuer(t) // another key, which says it is this issuer's
			if _, err := whoAmI(t, withToken(srv.config,
				forged.token(t, map[string]any{"iss": issuer.url}))); !apierrors.IsUnauthorized(err) {
				t.Errorf("with a forged token: %v", err)
			}
			isUser(t, srv.config, "kubernetes-admin", "system:masters")
			if name == "configuration file" {
				if _, err := whoAmI(t, withToken(srv.config,
					issuer.token(t, map[string]any{"sub": "system:admin"}))); !apierrors.IsUnauthorized(err) {
					t.Errorf("with a user that a rule refuses: %v", err)
				}
			}
		})
	}
}

// An issuer is a small OpenID Connect issuer.
type issuer struct {
	url string
	ca  []byte
	key *rsa.PrivateKey
}

func startIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{}
	var err error
	if i.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	var url atomic.Value
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": url.Load(), "jwks_uri": fmt.Sprint(url.Load(), "/keys"),
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one",
			"n": base64.RawURLEncoding.EncodeToString(i.key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(i.key.E)).Bytes()),
		}}})
	})
	i.url, i.ca = serveTLS(t, mux)
	url.Store(i.url)
	return i
}

// token is a token of carla's, with some claims changed.
func (i *issuer) token(t testing.TB, change map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.url, "aud": "gatehouse", "sub": "carla", "roles": []string{"gardeners"},
		"iat": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for claim, value := range change {
		claims[claim] = value
	}
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	signed := encode(map[string]string{"alg": "RS256", "kid": "one", "typ": "JWT"}) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// webhookKubeconfig writes the file that says how to reach a webhook of the API server's.
func webhookKubeconfig(t testing.TB, url string, ca []byte) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["webhook"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["gatehouse"] = &clientcmdapi.AuthInfo{}
	config.Contexts["webhook"] = &clientcmdapi.Context{Cluster: "webhook", AuthInfo: "gatehouse"}
	config.CurrentContext = "webhook"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "webhook.kubeconfig", data)
}

func kubeconfigOf(t testing.TB, k kubectl) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
