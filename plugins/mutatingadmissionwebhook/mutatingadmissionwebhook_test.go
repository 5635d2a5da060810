// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutatingadmissionwebhook

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

func TestObjectsAreChanged(t *testing.T) {
	backend := webhooktest.New(t,
		webhooktest.Patch(`[{"op":"add","path":"/metadata/labels","value":{"by":"webhook"}}]`))
	none := admissionregistrationv1.SideEffectClassNone
	cluster := plugintest.NewCluster(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
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
	result := subject.Admit(t, plugintest.Create(&corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
	})).Admitted(t)
	if got := result.Object.(*corev1.Pod).Labels["by"]; got != "webhook" {
		t.Errorf("the label is %q", got)
	}
	const annotation = `{"configuration":"c","webhook":"w.example.com","mutated":true}`
	if got := result.Annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]; got != annotation {
		t.Errorf("the audit annotation is %q", got)
	}
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
