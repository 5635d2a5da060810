package validatingadmissionwebhook

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/chaintest"
	"gatehouse.dev/internal/webhooktest"
)

func TestRequestsAreJudged(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Deny(403, "not today"))
	none := admissionregistrationv1.SideEffectClassNone
	cluster := chaintest.NewCluster(t,
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
	plugin := cluster.Build(t, Descriptor, "")
	plugin.Validate(t, chaintest.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})).
		Refused(t, 403, `admission webhook "w.example.com" denied the request: not today`)
	plugin.Validate(t,
		chaintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})).Admitted(t)
}

func TestWhatIsMissing(t *testing.T) {
	cluster := chaintest.NewCluster(t)
	whole := *cluster.Env
	whole.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	for missing, remove := range map[string]func(*chain.Env){
		"needs a client":                        func(e *chain.Env) { e.Client = nil },
		"needs informers":                       func(e *chain.Env) { e.Informers = nil },
		"needs an authorizer":                   func(e *chain.Env) { e.Authorizer = nil },
		"needs to know when the server is done": func(e *chain.Env) { e.Done = nil },
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
