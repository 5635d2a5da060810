// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooks_test has webhooks called by a running server, through client-go, with real TLS
// backends. Each test keeps to a namespace of its own, and its webhooks to that namespace.
package webhooks_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

// The one server of all tests, and its clients.
var (
	cluster       *servertest.Cluster
	config        *rest.Config
	client        kubernetes.Interface
	dynamicClient dynamic.Interface
)

func TestMain(m *testing.M) {
	needs.NotShort()
	// Deployments in several versions, to be converted between.
	cluster = servertest.Start(&suite, servertest.RuntimeConfig("apps/v1beta1=true", "apps/v1beta2=true"))
	config, client, dynamicClient = servertest.Quick(cluster.Config), cluster.Client, cluster.Dynamic
	suite.Main(m)
}

// namespace makes a namespace for the test.
func namespace(t *testing.T) string {
	t.Helper()
	name := cluster.Namespace(t, nil)
	t.Cleanup(func() { _ = client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return name
}

// backend is a webhook backend that writes down what it is asked.
type backend struct {
	*webhooktest.Server
	probed   atomic.Bool
	mu       sync.Mutex
	requests []*admissionv1.AdmissionRequest
	versions []string
}

// allow is the answer that changes nothing.
func allow(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// patch is the answer with a JSON patch.
func patch(operations string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(operations), PatchType: &jsonPatch}
	}
}

func newBackend(t *testing.T, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *backend {
	b := &backend{}
	b.Server = webhooktest.New(t,
		webhooktest.Review(func(review *admissionv1.AdmissionReview) *admissionv1.AdmissionReview {
			switch review.Request.Name {
			case probeName:
				// The probe of whether the configuration is in force is nothing for the test.
				b.probed.Store(true)
				return &admissionv1.AdmissionReview{Response: allow(review.Request)}
			case "kube-root-ca.crt":
				// A controller puts it into each new namespace, when it comes to that.
				return &admissionv1.AdmissionReview{Response: allow(review.Request)}
			}
			b.mu.Lock()
			b.requests = append(b.requests, review.Request)
			b.versions = append(b.versions, review.APIVersion)
			b.mu.Unlock()
			return &admissionv1.AdmissionReview{Response: answer(review.Request)}
		}))
	return b
}

// asked is what the backend was asked, in order.
func (b *backend) asked() []*admissionv1.AdmissionRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*admissionv1.AdmissionRequest(nil), b.requests...)
}

// only is the one request that the backend was asked about.
func (b *backend) only(t *testing.T) *admissionv1.AdmissionRequest {
	t.Helper()
	asked := b.asked()
	if len(asked) != 1 {
		t.Fatalf("the webhook was asked %d times, want once", len(asked))
	}
	return asked[0]
}

// rule is a rule about everything that is done to a resource.
func rule(group, version, resource string,
	operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	if len(operations) == 0 {
		operations = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
	}
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
			Resources: []string{resource}},
	}
}

// probeName is the name of the ConfigMap whose dry-run creation tells whether a configuration is in
// force: its webhooks are asked about it.
const probeName = "probe"

// mutating configures a webhook for the namespace, and waits until it is in force. change, if there
// is one, changes it before.
func mutating(t *testing.T, namespace string, b *backend, change func(*admissionregistrationv1.MutatingWebhook),
	rules ...admissionregistrationv1.RuleWithOperations) {
	t.Helper()
	none := admissionregistrationv1.SideEffectClassNone
	w := admissionregistrationv1.MutatingWebhook{
		Name: "mutating.example.com", ClientConfig: b.ClientConfig("/mutate"), Rules: rules, SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       selector(namespace),
	}
	if change != nil {
		change(&w)
	}
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m-" + namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{w, *w.DeepCopy()}}
	c.Webhooks[1].Name, c.Webhooks[1].Rules, c.Webhooks[1].MatchConditions,
		c.Webhooks[1].ObjectSelector = "probe.example.com",
		[]admissionregistrationv1.RuleWithOperations{rule("", "v1", "configmaps")}, probeOnly, nil
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), c,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.Background(), c.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	inForce(t, namespace, b)
}

// validating does what mutating does.
func validating(t *testing.T, namespace string, b *backend, change func(*admissionregistrationv1.ValidatingWebhook),
	rules ...admissionregistrationv1.RuleWithOperations) {
	t.Helper()
	none := admissionregistrationv1.SideEffectClassNone
	w := admissionregistrationv1.ValidatingWebhook{
		Name: "validating.example.com", ClientConfig: b.ClientConfig("/validate"), Rules: rules, SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       selector(namespace),
	}
	if change != nil {
		change(&w)
	}
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{w, *w.DeepCopy()}}
	c.Webhooks[1].Name, c.Webhooks[1].Rules, c.Webhooks[1].MatchConditions,
		c.Webhooks[1].ObjectSelector = "probe.example.com",
		[]admissionregistrationv1.RuleWithOperations{rule("", "v1", "configmaps")}, probeOnly, nil
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), c,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(),
			c.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	inForce(t, namespace, b)
}

var probeOnly = []admissionregistrationv1.MatchCondition{{Name: "probe",
	Expression: `object != null && object.metadata.name == "` + probeName + `"`}}

func selector(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

// inForce waits until a backend is asked about the probe. It doesn't deny it: the webhooks of other
// configurations for the namespace are to be asked as well.
func inForce(t *testing.T, namespace string, b *backend) {
	t.Helper()
	servertest.Eventually(t, "the configuration to be in force", func() bool {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: probeName}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && b.probed.Load()
	})
}

// decoded is the object that was sent to a webhook.
func decoded[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var object T
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return object
}
