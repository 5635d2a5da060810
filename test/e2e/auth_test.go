// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
)

// One server with many flags, each of which does what it does in kube-apiserver.
func TestFlags(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	users, serving := newAuthority(t), newAuthority(t)
	servingCert, servingKey, err := serving.Serving("api", []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := writeFile(t, "sa.key", keyPEM)
	audit := filepath.Join(t.TempDir(), "audit.log")
	srv := serve(t, "--data-dir="+dir,
		"--token-auth-file="+writeFile(t, "tokens", []byte("secret-of-jane,jane,1,\"readers,writers\"\n")),
		"--client-ca-file="+writeFile(t, "users.crt", users.CertPEM()),
		"--tls-cert-file="+writeFile(t, "api.crt", servingCert),
		"--tls-private-key-file="+writeFile(t, "api.key", servingKey),
		"--anonymous-auth=false",
		"--service-account-issuer=https://issuer.example", "--service-account-signing-key-file="+keyFile,
		"--service-account-key-file="+keyFile,
		"--api-audiences=https://issuer.example,elsewhere",
		"--service-cluster-ip-range=10.20.0.0/24",
		"--allow-privileged=false",
		"--audit-log-path="+audit, "--audit-log-mode=blocking",
		"--audit-policy-file="+writeFile(t, "policy.yaml",
			[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request, resources: [{group: \"\", "+
				"resources: [pods]}]}, {level: Metadata}]\n")),
		"--max-requests-inflight=300", "--max-mutating-requests-inflight=100", "--request-timeout=30s",
		"--event-ttl=10m",
		"--feature-gates=WatchList=true", "--authorization-mode=RBAC")
	ctx := t.Context()

	t.Run("administrator", func(t *testing.T) {
		isUser(t, srv.config, "kubernetes-admin", "system:masters", "system:authenticated")
		if _, err := srv.client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("token file", func(t *testing.T) {
		isUser(t, withToken(srv.config, "secret-of-jane"), "jane", "readers", "writers", "system:authenticated")
		if _, err := whoAmI(t, withToken(srv.config, "secret-of-joe")); !apierrors.IsUnauthorized(err) {
			t.Errorf("with a token that isn't in the file: %v", err)
		}
	})
	t.Run("client certificate", func(t *testing.T) {
		c, k, err := users.Client("bob", "readers")
		isUser(t, withCertificate(t, srv.config, c, k, err), "bob", "readers", "system:authenticated")
		c, k, err = newAuthority(t).Client("mallory", "system:masters")
		if _, err := whoAmI(t, withCertificate(t, srv.config, c, k, err)); !apierrors.IsUnauthorized(err) {
			t.Errorf("with a certificate of nobody's authority: %v", err)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		client := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(srv.config))
		if _, err := client.Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
			t.Errorf("without --anonymous-auth: %v", err)
		}
	})
	t.Run("RBAC", func(t *testing.T) {
		jane := kubernetes.NewForConfigOrDie(withToken(srv.config, "secret-of-jane"))
		if _, err := jane.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("before she may: %v", err)
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "readers"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
		}
		if _, err := srv.client.RbacV1().RoleBindings("default").Create(ctx, binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, startTimeout, func(ctx context.Context) error {
			_, err := jane.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err
		})
		if err := jane.CoreV1().Pods("default").Delete(ctx, "any",
			metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a reader deletes: %v", err)
		}
	})
	t.Run("service account tokens", func(t *testing.T) { serviceAccountTokens(t, srv) })
	t.Run("service range", func(t *testing.T) {
		_, network, _ := net.ParseCIDR("10.20.0.0/24")
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "in-range"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		made, err := srv.client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !network.Contains(net.ParseIP(made.Spec.ClusterIP)) {
			t.Errorf("the service's IP is %s", made.Spec.ClusterIP)
		}
		if own, err := srv.client.CoreV1().Services("default").Get(ctx, "kubernetes",
			metav1.GetOptions{}); err != nil || own.Spec.ClusterIP != "10.20.0.1" {
			t.Errorf("the kubernetes service's IP is %s, %v", own.Spec.ClusterIP, err)
		}
	})
	t.Run("privileged pod", func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "privileged"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "c", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
			}}}}
		_, err := srv.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "privileged: Forbidden: disallowed by cluster policy") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("audit", func(t *testing.T) {
		events := auditEvents(t, audit)
		i := slices.IndexFunc(events, func(e auditv1.Event) bool {
			return e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Resource == "pods"
		})
		if i < 0 {
			t.Fatalf("the pod isn't among %d events", len(events))
		}
		e := events[i]
		if e.Level != auditv1.LevelRequest || e.User.Username != "kubernetes-admin" || e.ResponseStatus.Code != 422 ||
			e.RequestObject == nil || e.Annotations["authorization.k8s.io/decision"] != "allow" {
			t.Errorf("the pod's event is %+v", e)
		}
		if !slices.ContainsFunc(events, func(e auditv1.Event) bool {
			return e.User.Username == "jane" && e.ResponseStatus != nil && e.ResponseStatus.Code == 403 &&
				e.Annotations["authorization.k8s.io/decision"] == "forbid"
		}) {
			t.Error("no event of what jane was forbidden")
		}
	})
	srv.stop(t)
}

// serviceAccountTokens tests what a server with an issuer, a key and audiences of its own issues
// and accepts.
func serviceAccountTokens(t *testing.T, srv *gatehouse) {
	ctx := t.Context()
	request := func(audiences ...string) string {
		t.Helper()
		made, err := srv.client.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "default",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made.Status.Token
	}
	eventually(t, startTimeout, func(ctx context.Context) error {
		_, err := srv.client.CoreV1().ServiceAccounts("kube-system").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	token := request()
	var claims struct {
		Iss string
		Aud []string
		Sub string
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil || claims.Iss != "https://issuer.example" ||
		claims.Sub != "system:serviceaccount:kube-system:default" ||
		fmt.Sprint(claims.Aud) != "[https://issuer.example elsewhere]" {
		t.Errorf("the token claims %s, %v", payload, err)
	}
	isUser(t, withToken(srv.config, token), "system:serviceaccount:kube-system:default", "system:serviceaccounts",
		"system:authenticated")
	isUser(t, withToken(srv.config, request("elsewhere")), "system:serviceaccount:kube-system:default")
	other := request("others")
	if _, err := whoAmI(t, withToken(srv.config, other)); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token for others: %v", err)
	}
	review, err := srv.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token,
			Audiences: []string{"elsewhere", "others"}}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || fmt.Sprint(review.Status.Audiences) != "[elsewhere]" {
		t.Errorf("the review says %+v, %v", review.Status, err)
	}
	tampered := strings.Split(token, ".")
	tampered[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), "kube-system:default",
		"kube-system:admin", 1)))
	if _, err := whoAmI(t, withToken(srv.config, strings.Join(tampered, "."))); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token that was tampered with: %v", err)
	}
	for path, want := range map[string]string{
		"/.well-known/openid-configuration": `"issuer":"https://issuer.example"`,
		"/openid/v1/jwks":                   `"alg":"ES256"`,
	} {
		got, err := srv.client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		says(t, string(got), want)
	}
}

// Without flags an anonymous client may read what tells nothing, and no more.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	k := onShared(t, "default")
	config := rest.AnonymousClientConfig(kubeconfigOf(t, k))
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Errorf("/version: %v", err)
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil {
		t.Errorf("/readyz: %v", err)
	}
	_, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), `User "system:anonymous" cannot list resource "pods"`) {
		t.Errorf("pods: %v", err)
	}
	if _,
		err := client.Discovery().RESTClient().Get().AbsPath(
		"/metrics").DoRaw(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("/metrics: %v", err)
	}
}

// Everybody who is somebody may do everything.
func TestAlwaysAllow(t *testing.T) {
	t.Parallel()
	srv := serve(t, "--authorization-mode=AlwaysAllow",
		"--token-auth-file="+writeFile(t, "tokens", []byte("secret-of-jane,jane,1\n")))
	jane := kubernetes.NewForConfigOrDie(withToken(srv.config, "secret-of-jane"))
	if _, err := jane.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	anonymous := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(srv.config))
	if _,
		err := anonymous.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("nobody lists secrets: %v", err)
	}
	if roles, err := srv.client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(roles.Items) != 0 {
		t.Errorf("a server without RBAC makes roles: %v", err)
	}
}

func withToken(config *rest.Config, token string) *rest.Config {
	c := rest.AnonymousClientConfig(config)
	c.BearerToken = token
	return c
}

func withCertificate(t testing.TB, config *rest.Config, cert, key []byte, err error) *rest.Config {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c := rest.AnonymousClientConfig(config)
	c.CertData, c.KeyData = cert, key
	return c
}

func whoAmI(t testing.TB, config *rest.Config) (authenticationv1.UserInfo, error) {
	t.Helper()
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// isUser fails the test where config isn't of the user, in the groups and perhaps others.
func isUser(t testing.TB, config *rest.Config, name string, groups ...string) {
	t.Helper()
	user, err := whoAmI(t, config)
	if err != nil || user.Username != name {
		t.Errorf("the user is %s, %v; want %s", user.Username, err, name)
	}
	for _, group := range groups {
		if !slices.Contains(user.Groups, group) {
			t.Errorf("%s is in %s, not in %s", name, user.Groups, group)
		}
	}
}

// auditEvents are the events of requests that have been answered.
func auditEvents(t testing.TB, name string) (events []auditv1.Event) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if event.Stage == auditv1.StageResponseComplete {
			events = append(events, event)
		}
	}
	return events
}
