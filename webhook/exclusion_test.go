// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// withGate sets the gate that keeps webhooks away from reviews.
func withGate(t testing.TB, cluster *plugintest.Cluster, on bool) {
	t.Helper()
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		"ExcludeAdmissionWebhookVirtualResources": {Default: on, PreRelease: featuregate.Beta}}); err != nil {
		t.Fatal(err)
	}
	cluster.Env.Features = gates
}

// No webhook is asked about reviews of identities and rights, not even one from a file, and they don't
// wait for webhooks to be read. Without the gate all are asked.
//
// Source: TestVirtualResourceExclusion in
// k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/exclusion_test.go.
func TestReviewsAreNotForWebhooks(t *testing.T) {
	objects := map[string]struct {
		kind   schema.GroupVersionKind
		object runtime.Object
		review bool
	}{
		"tokenreviews": {authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
			&authenticationv1.TokenReview{}, true},
		"selfsubjectreviews": {authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
			&authenticationv1.SelfSubjectReview{}, true},
		"subjectaccessreviews": {authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
			&authorizationv1.SubjectAccessReview{}, true},
		"selfsubjectaccessreviews": {authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
			&authorizationv1.SelfSubjectAccessReview{}, true},
		"selfsubjectrulesreviews": {authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
			&authorizationv1.SelfSubjectRulesReview{}, true},
		"pods": {schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, newPod(), false},
	}
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprintf("gate %t", on), func(t *testing.T) {
			b := newAnswering(t, allowed)
			everything := aWebhook("w.example.com", b.ClientConfig("/"), rules(aRule("*", "*", "*", "*/*")))
			cluster := plugintest.NewCluster(t, mutatingConfiguration("a", everything),
				validatingConfiguration("a", everything), ns)
			withGate(t, cluster, on)
			p := buildPlugins(t, strings.NewReader(manifestOf(t, b)), cluster)
			for resource, test := range objects {
				test.object.GetObjectKind().SetGroupVersionKind(test.kind)
				a := newAttributes(create, test.object, nil, of(test.kind, resource), in(""))
				before := b.Calls()
				wantError(t, p.admit(t, a), "")
				wantError(t, p.validate(t, a), "")
				want := 3 // the webhook of the file, and those of the API
				if on && test.review {
					want = 0
				}
				if got := b.Calls() - before; got != want {
					t.Errorf("%s: webhooks were asked %d times, want %d", resource, got, want)
				}
			}
		})
	}
}

// manifestOf is a configuration of the mutating plugin with a directory in which a file has a webhook
// for everything.
func manifestOf(t testing.TB, b *answering) string {
	t.Helper()
	dir := t.TempDir()
	manifest := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",
		"metadata":{"name":"a.static.k8s.io"},"webhooks":[{"name":"s.example.com","clientConfig":{"url":%q,"caBundle":%q},
		"admissionReviewVersions":["v1"],"sideEffects":"None",
		"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}]}`,
		b.URL("/"), base64Of(b.Authority.PEM()))
	if err := os.WriteFile(filepath.Join(dir, "m.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"WebhookAdmissionConfiguration",`+
		`"staticManifestsDir":%q}`, dir)
}

// The log names the reviews that the rules of a configuration name, each time that the configuration
// is read. A rule with a wildcard may be meant for something else.
func TestRulesAboutReviewsAreLogged(t *testing.T) {
	webhook := func(name string, groups, resources []string) admissionregistrationv1.MutatingWebhook {
		return aWebhook(name, nobody(), rules(admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{"*"},
			Rule: admissionregistrationv1.Rule{APIGroups: groups, APIVersions: []string{"v1"},
				Resources: resources}}))
	}
	reviews := mutatingConfiguration("reviews",
		webhook("a", []string{"authorization.k8s.io", "authentication.k8s.io", ""},
			[]string{"subjectaccessreviews", "tokenreviews", "pods"}),
		webhook("b", []string{"authentication.k8s.io"}, []string{"tokenreviews", "selfsubjectreviews"}))
	others := mutatingConfiguration("others",
		webhook("c", []string{"*"}, []string{"tokenreviews"}),
		webhook("d", []string{"authentication.k8s.io"}, []string{"*", "tokenreviews"}),
		webhook("e", []string{""}, []string{"tokenreviews"}),
		webhook("f", []string{"authentication.k8s.io"}, []string{"tokenreviews/status"}))
	for _, on := range []bool{true, false} {
		var log []string
		s := newTestSource(t)
		s.excludesReviews = on
		s.info = func(text string, keysAndValues ...any) { log = append(log, fmt.Sprintf("%q %q", text, keysAndValues)) }
		s.refresh(reviews, others)
		s.refresh(reviews, others)
		const want = `"Admission webhook configuration names resources that are excluded from admission webhooks; ` +
			`the matching rules will have no effect" ["kind" "MutatingWebhookConfiguration" "name" "reviews" ` +
			`"excludedResources" ["selfsubjectreviews.authentication.k8s.io" ` +
			`"subjectaccessreviews.authorization.k8s.io" "tokenreviews.authentication.k8s.io"]]`
		if on && (len(log) != 1 || log[0] != want) || !on && len(log) > 0 {
			t.Errorf("with the gate %t the log has %q", on, log)
		}
	}
}
