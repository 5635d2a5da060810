// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package validatingadmissionwebhook

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func TestRequestsAreJudged(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Deny(403, "not today"))
	none := admissionregistrationv1.SideEffectClassNone
	cluster := plugintest.NewCluster(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "w.example.com", ClientConfig: backend.ClientConfig("/"), AdmissionReviewVersions: []string{"v1"},
				SideEffects:       &none,
				NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"CREATE"},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"pods"}},
				}},
			}},
		})
	cluster.Env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	subject := cluster.Build(t, Descriptor, "")
	subject.Validate(t, plugintest.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})).
		Refused(t, 403, `admission webhook "w.example.com" denied the request: not today`)
	subject.Validate(t,
		plugintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})).Admitted(t)
}

func TestWhatIsMissing(t *testing.T) {
	cluster := plugintest.NewCluster(t)
	whole := *cluster.Env
	whole.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	for missing, remove := range map[string]func(*plugin.Env){
		"needs a client":                        func(e *plugin.Env) { e.Client = nil },
		"needs informers":                       func(e *plugin.Env) { e.Informers = nil },
		"needs an authorizer":                   func(e *plugin.Env) { e.Authorizer = nil },
		"needs to know when the server is done": func(e *plugin.Env) { e.Done = nil },
	} {
		env := whole
		remove(&env)
		if _, err := Descriptor.New(nil, &env); err == nil || err.Error() != missing {
			t.Errorf("the error is %v, want %s", err, missing)
		}
	}
	if _, err := Descriptor.New(strings.NewReader(`{"kind":"WebhookAdmissionConfiguration"}`), &whole); err == nil {
		t.Error("a configuration without apiVersion is taken")
	}
}
