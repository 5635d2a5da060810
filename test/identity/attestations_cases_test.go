// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// refusals are the requests that get no token.
func (a attesting) refusals(t *testing.T) {
	const (
		validating, mutating = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
		invalid              = `TokenRequest.authentication.k8s.io "" is invalid: spec.`
		exactlyOne           = "webhook bound requests require exactly one admissionReviewAPIGroups attestation"
		onlyForWebhooks      = invalid + `attestations: Invalid value: {"admissionReviewAPIGroups":["apps"]}: ` +
			`attestations may only be specified with a webhook bound object reference`
		audience = `audiences: ["https://w.example.com"], `
		mayNot   = `admissionReviewAPIGroups.authentication.k8s.io %q is forbidden: User ` +
			`"system:serviceaccount:%s:%s" cannot attest resource "admissionReviewAPIGroups" in API group ` +
			`"authentication.k8s.io" at the cluster scope`
		anotherUID = `Operation cannot be fulfilled on %s.admissionregistration.k8s.io "c": the UID in the bound ` +
			`object reference (wrong) does not match the UID in record. The object might have been deleted and then recreated`
	)
	attests := func(groups string) string { return "attestations: {" + groups + "}" }
	c := bound(validating, "c", "")
	for _, test := range []struct{ name, account, spec, want string }{
		{"no such account", "nobody", audience + attestsApps + ", " + c, `serviceaccounts "nobody" not found`},
		{"no such validating configuration", "a", audience + attestsApps + ", " + bound(validating, "gone", ""), tokenDenied},
		{"no such mutating configuration", "a", audience + attestsApps + ", " + bound(mutating, "gone", ""), tokenDenied},
		{"another validating configuration", "a", audience + attestsApps + ", " + bound(validating, "c", "wrong"),
			fmt.Sprintf(anotherUID, validating)},
		{"another mutating configuration", "a", audience + attestsApps + ", " + bound(mutating, "c", "wrong"),
			fmt.Sprintf(anotherUID, mutating)},
		{"no attestation for validating", "a", audience + c, invalid + "attestations: Invalid value: null: " + exactlyOne},
		{"no attestation for mutating", "a", audience + bound(mutating, "c", ""),
			invalid + "attestations: Invalid value: null: " + exactlyOne},
		{"no right to attest", "none", audience + attestsApps + ", " + c, fmt.Sprintf(mayNot, "apps", a.namespace, "none")},
		{"all groups with the right for one", "a", audience + attests(`admissionReviewAPIGroups: ["*"]`) + ", " + c,
			fmt.Sprintf(mayNot, "*", a.namespace, "a")},
		{"no value", "a", audience + attests(`admissionReviewAPIGroups: []`) + ", " + c,
			invalid + "attestations[admissionReviewAPIGroups]: Invalid value: []: must specify a single value"},
		{"another attestation", "a", audience + attests(`admissionReviewAPIGroups: [apps], bogus: [v]`) + ", " + c,
			invalid + `attestations: Invalid value: {"admissionReviewAPIGroups":["apps"],"bogus":["v"]}: ` + exactlyOne},
		{"two values", "a", audience + attests(`admissionReviewAPIGroups: [a, b]`) + ", " + c,
			invalid + `attestations[admissionReviewAPIGroups]: Invalid value: ["a","b"]: must specify a single value`},
		{"an empty value", "a", audience + attests(`admissionReviewAPIGroups: [""]`) + ", " + c, invalid +
			`attestations[admissionReviewAPIGroups][0]: Invalid value: "": may not be an empty string`},
		{"bound to a pod", "a", attestsApps + ", " + bound("Pod", "p", "u"), onlyForWebhooks},
		{"bound to a secret", "a", attestsApps + ", " + bound("Secret", "s", "u"), onlyForWebhooks},
		{"bound to nothing", "a", attestsApps, onlyForWebhooks},
		{"two audiences", "a", `audiences: ["https://w.example.com", other], ` + attestsApps + ", " + c, invalid +
			`audiences: Invalid value: ["https://w.example.com","other"]: must be length 1 when bound to a webhook config`},
		{"another audience", "a", `audiences: ["https://other.example.com"], ` + attestsApps + ", " + c, tokenDenied},
		{"almost a Service's audience", "a", `audiences: ["https://svc.ns.svc:8443/validate/"], ` + attestsApps + ", " + c,
			tokenDenied},
		{"a group without a rule", "a", audience + attests(`admissionReviewAPIGroups: [networking.k8s.io]`) + ", " + c,
			tokenDenied},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := a.token(t, test.account, test.spec)
			says(t, err, test.want)
		})
	}
	t.Run("a right that is taken away", func(t *testing.T) {
		_, revoke := a.account(t, "b", "apps")
		ask := func() error {
			_, err := a.token(t, "b", audience+attestsApps+", "+c)
			return err
		}
		servertest.Retry(t, "the right to be known", ask)
		if err := revoke(); err != nil {
			t.Fatal(err)
		}
		var err error
		servertest.Eventually(t, "the right to be gone", func() bool { err = ask(); return err != nil })
		says(t, err, fmt.Sprintf(mayNot, "apps", a.namespace, "b"))
	})
	for _, kind := range []string{validating, mutating} {
		t.Run("audience and rule of different webhooks, "+kind, func(t *testing.T) {
			a.configure(t, kind, "name: split", webhook{`url: "https://jobs.example.com"`, "batch"},
				webhook{`url: "https://apps.example.com"`, "apps"})
			_, err := a.token(t, "a", `audiences: ["https://jobs.example.com"], `+attestsApps+", "+bound(kind, "split", ""))
			says(t, err, tokenDenied)
		})
	}
}

// grants are the requests that get a token, and what it says.
func (a attesting) grants(t *testing.T, kind, uid, account string) {
	ask := func(who, audience, group, uid string) *authenticationv1.TokenRequest {
		t.Helper()
		return allowed[*authenticationv1.TokenRequest](t, "a token for "+audience)(a.token(t, who, fmt.Sprintf(
			`audiences: [%q], attestations: {admissionReviewAPIGroups: [%q]}, expirationSeconds: 7200, %s`, audience,
			group, bound(kind, "c", uid))))
	}
	const url = "https://w.example.com"
	for _, given := range []string{"", uid} {
		token := ask("a", url, "apps", given)
		key := strings.ToLower(kind)
		want := fmt.Sprintf(`{"namespace":%q,"serviceaccount":{"name":"a","uid":%q},%q:{"name":"c","uid":%q},`+
			`"attestations":{"admissionReviewAPIGroups":["apps"]}}`, a.namespace, account, key, uid)
		if got := claims(t, token); !reflect.DeepEqual(got["kubernetes.io"], parsed(t, want)) ||
			!reflect.DeepEqual(got["aud"], []any{url}) {
			t.Errorf("the token says %v, and not %s", got, want)
		}
		status := a.review(t, token)
		delete(status.User.Extra, "authentication.kubernetes.io/credential-id")
		if extra := map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/" + key + "-name":                     {"c"},
			"authentication.kubernetes.io/" + key + "-uid":                      {uid},
			"attestation.authentication.kubernetes.io/admissionReviewAPIGroups": {"apps"},
		}; !status.Authenticated || !reflect.DeepEqual(status.User.Extra, extra) {
			t.Errorf("the review says %+v, and should have %v", status, extra)
		}
		if d := token.Status.ExpirationTimestamp.Sub(token.CreationTimestamp.Time); d > 10*time.Minute+time.Second {
			t.Errorf("the token is good for %v", d)
		}
	}
	for _, audience := range []string{"https://svc.ns.svc:8443/validate", "https://root.ns.svc:443/"} {
		if got := claims(t, ask("a", audience, "apps", ""))["aud"]; !reflect.DeepEqual(got, []any{audience}) {
			t.Errorf("the token's audience is %v, and not %s", got, audience)
		}
	}
	got := claims(t, ask("all", url, "*", ""))["kubernetes.io"].(map[string]any)["attestations"]
	if want := parsed(t, `{"admissionReviewAPIGroups": ["*"]}`); !reflect.DeepEqual(got, want) {
		t.Errorf("the token attests %v", got)
	}
}

// ends shows what becomes of tokens when the configuration goes.
func (a attesting) ends(t *testing.T, kind string) {
	a.configure(t, kind, "name: going", webhook{`url: "https://going.example.com"`, "apps"})
	a.configure(t, kind, "name: held, finalizers: [example.com/held]", webhook{`url: "https://going.example.com"`, "apps"})
	ask := func(name string) (*authenticationv1.TokenRequest, error) {
		return a.token(t, "a", `audiences: ["https://going.example.com"], `+attestsApps+", "+bound(kind, name, ""))
	}
	token := allowed[*authenticationv1.TokenRequest](t, "a token")(ask("going"))
	// The server hears of the configuration a moment after it is there.
	servertest.Eventually(t, "the token to be good", func() bool { return a.review(t, token).Authenticated })
	for _, name := range []string{"going", "held"} {
		if err := a.Dynamic.Resource(resourceOf(kind)).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// It remembers for ten seconds whom it has authenticated.
	servertest.Eventually(t, "the token to be no good", func() bool { return !a.review(t, token).Authenticated })
	var err error
	servertest.Eventually(t, "no tokens for what is being deleted", func() bool { _, err = ask("held"); return err != nil })
	says(t, err, tokenDenied)
}

// claims are what a token says.
func claims(t *testing.T, token *authenticationv1.TokenRequest) map[string]any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Status.Token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(payload))
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var content map[string]any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return content
}
