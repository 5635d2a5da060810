// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/servertest"
)

// attesting is a server, and a namespace whose accounts get tokens for webhooks.
type attesting struct {
	*servertest.Cluster
	namespace string
}

// account makes a service account. It may attest groups, until the function is called that is
// returned.
func (a attesting) account(t *testing.T, name string, groups ...string) (*corev1.ServiceAccount, func() error) {
	t.Helper()
	account := allowed[*corev1.ServiceAccount](t, "the account")(a.Client.CoreV1().ServiceAccounts(a.namespace).Create(
		t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	if len(groups) == 0 {
		return account, nil
	}
	allowed[*rbacv1.ClusterRole](t, "the role")(a.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"attest"}, APIGroups: []string{"authentication.k8s.io"},
			Resources: []string{"admissionReviewAPIGroups"}, ResourceNames: groups}},
	}, metav1.CreateOptions{}))
	bindings := a.Client.RbacV1().ClusterRoleBindings()
	allowed[*rbacv1.ClusterRoleBinding](t, "its binding")(bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: a.namespace, Name: name}},
	}, metav1.CreateOptions{}))
	return account, func() error { return bindings.Delete(t.Context(), name, metav1.DeleteOptions{}) }
}

// token asks for an account's token, as spec says in YAML.
func (a attesting) token(t *testing.T, account, spec string) (*authenticationv1.TokenRequest, error) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if err := yaml.Unmarshal([]byte("{"+spec+"}"), &request.Spec); err != nil {
		t.Fatal(err)
	}
	return a.Client.CoreV1().ServiceAccounts(a.namespace).CreateToken(t.Context(), account, request,
		metav1.CreateOptions{})
}

// bound is what binds a token to an object, as YAML.
func bound(kind, name, uid string) string {
	version := "v1"
	if strings.HasSuffix(kind, "Configuration") {
		version = "admissionregistration.k8s.io/v1"
	}
	return fmt.Sprintf("boundObjectRef: {apiVersion: %s, kind: %s, name: %q, uid: %q}", version, kind, name, uid)
}

// webhook is a client's configuration and the group of a rule, as YAML.
type webhook struct{ client, group string }

// configure makes a configuration of webhooks and returns its uid.
func (a attesting) configure(t *testing.T, kind, metadata string, webhooks ...webhook) string {
	t.Helper()
	var all []string
	for i, w := range webhooks {
		all = append(all, fmt.Sprintf(`{name: w%d.example.com, sideEffects: None, admissionReviewVersions: [v1],
			clientConfig: {%s}, rules: [{operations: [CREATE], apiGroups: [%s], apiVersions: [v1], resources: ["*"]}]}`,
			i, w.client, w.group))
	}
	made, err := a.Dynamic.Resource(resourceOf(kind)).Create(t.Context(), servertest.Parsed(t, fmt.Sprintf(
		`{apiVersion: admissionregistration.k8s.io/v1, kind: %s, metadata: {%s}, webhooks: [%s]}`, kind, metadata,
		strings.Join(all, ", "))), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(made.GetUID())
}

func resourceOf(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: strings.ToLower(kind) + "s"}
}

// review asks the server whose token it is.
func (a attesting) review(t *testing.T, token *authenticationv1.TokenRequest) authenticationv1.TokenReviewStatus {
	t.Helper()
	review, err := a.Client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token, Audiences: token.Spec.Audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status
}

const (
	attestsApps = "attestations: {admissionReviewAPIGroups: [apps]}"
	tokenDenied = `serviceaccounts/token "a" is forbidden: token request denied`
)

// Without the gate no token is bound to a webhook's configuration.
//
// Source: k8s.io/kubernetes/test/integration/auth/svcaccttoken_test.go#TestServiceAccountTokenAttestationsFeatureGateDisabled 510f88c6
func TestTokensForWebhooksWithoutTheGate(t *testing.T) {
	a := attesting{guarded().Cluster, guarded().Namespace(t, nil)}
	a.account(t, "a")
	_, err := a.token(t, "a", `audiences: ["https://w.example.com"], `+attestsApps+", "+
		bound("ValidatingWebhookConfiguration", "c", ""))
	says(t, err, "cannot bind token to object of type admissionregistration.k8s.io/v1, "+
		"Kind=ValidatingWebhookConfiguration (feature gate APIServerWebhookAuthenticationToken is disabled)")
}

// With the gate an account has tokens for one webhook of a configuration, that say which group's
// requests it is asked about, if the account may attest that and the webhook has a rule for it. They
// are good for ten minutes at most, and as long as the configuration is there.
//
// Source: k8s.io/kubernetes/test/integration/auth/svcaccttoken_test.go#TestServiceAccountTokenAttestations 38d9175a
func TestTokensForWebhooks(t *testing.T) {
	t.Parallel()
	p := servertest.NewProcess(t, "--feature-gates=APIServerWebhookAuthenticationToken=true",
		"--disable-admission-plugins=ServiceAccount")
	p.Start(t)
	a := attesting{Cluster: p.Connect(t)}
	a.namespace = a.Namespace(t, nil)
	account, _ := a.account(t, "a", "apps", "networking.k8s.io")
	a.account(t, "none")
	a.account(t, "all", "*")
	kinds := []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
	uids := map[string]string{}
	for _, kind := range kinds {
		uids[kind] = a.configure(t, kind, "name: c", webhook{`url: "https://w.example.com"`, "apps"},
			webhook{`service: {namespace: ns, name: svc, port: 8443, path: /validate}`, "apps"},
			webhook{`service: {namespace: ns, name: root}`, "apps"})
	}
	servertest.Retry(t, "the rights to be known", func() error {
		_, err := a.token(t, "a", `audiences: ["https://w.example.com"], `+attestsApps+", "+bound(kinds[0], "c", ""))
		return err
	})
	t.Run("refused", func(t *testing.T) { a.refusals(t) })
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { a.grants(t, kind, uids[kind], string(account.UID)) })
		t.Run(kind+" that goes", func(t *testing.T) { t.Parallel(); a.ends(t, kind) })
	}
}
