// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// told is a webhook that changes pods, and writes down what headers it got.
type told struct {
	mu      sync.Mutex
	headers []string
}

// calls is how often it was called.
func (w *told) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.headers)
}

func (w *told) handler() http.Handler {
	patch := webhooktest.Patch(`[{"op":"add","path":"/metadata/labels/hooked","value":"yes"}]`)
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.headers = append(w.headers, r.Header.Get("Traceparent"))
		w.mu.Unlock()
		patch.ServeHTTP(out, r)
	})
}

// configure has a webhook change the pods of a namespace, another one that nobody answers for fail
// open, and a policy refuse those with a label, and waits until that is in force.
func configure(t *testing.T, namespace string, backend *webhooktest.Server) {
	t.Helper()
	hooks := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	for name, to := range map[string]admissionregistrationv1.WebhookClientConfig{
		"hook.example.com": backend.ClientConfig("/"),
		"lost.example.com": {URL: new("https://" + webhooktest.Refusing(t))},
	} {
		hooks.Webhooks = append(hooks.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: name, ClientConfig: to, AdmissionReviewVersions: []string{"v1"},
			SideEffects:        new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:      new(admissionregistrationv1.Ignore),
			ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
			NamespaceSelector:  inNamespace(namespace),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
		})
	}
	slices.SortFunc(hooks.Webhooks, func(a, b admissionregistrationv1.MutatingWebhook) int {
		return strings.Compare(a.Name, b.Name)
	})
	api := client.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Create(t.Context(), hooks, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: inNamespace(namespace),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
					{RuleWithOperations: hooks.Webhooks[0].Rules[0]},
				},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "!('bad' in object.metadata.labels)",
				Message: "a bad pod"}},
		},
	}
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: namespace,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_ = api.MutatingWebhookConfigurations().Delete(ctx, namespace, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(ctx, namespace, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicyBindings().Delete(ctx, namespace, metav1.DeleteOptions{})
	})
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	servertest.Eventually(t, "the webhooks and the policy to be in force", func() bool {
		pods := client.CoreV1().Pods(namespace)
		_, err := pods.Create(t.Context(), pod("probe", map[string]string{"bad": ""}), dryRun)
		seen, ok := pods.Create(t.Context(), pod("probe", map[string]string{"a": ""}), dryRun)
		return apierrors.IsInvalid(err) && ok == nil && seen.Labels["hooked"] == "yes"
	})
}

// request is the name of the request's span, and around what is around the handler of one.
const (
	request = "POST /api/v1/namespaces/{:namespace}/pods"
	around  = " < Create < authorization < priorityandfairness < constrainedimpersonation < audit < " + request
)

// The creation of a pod is one trace: what Kubernetes shows of the request, and within that the
// chain's phases, plugins, webhooks and policies.
func TestTrace(t *testing.T) {
	ns := namespace(t)
	hook := &told{}
	configure(t, ns, webhooktest.New(t, hook.handler()))
	hook.headers = nil

	ctx, parent := servertest.NewTrace(t.Context())
	if _, err := client.CoreV1().Pods(ns).Create(ctx, pod("p", map[string]string{"a": ""}),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := spans.Trace(t, parent)
	id := parent.SpanID()
	if root := got.The(t, request); string(root.ParentSpanId) != string(id[:]) {
		t.Errorf("the request's parent is %x", root.ParentSpanId)
	}
	const (
		mutating   = "Mutating admission" + around
		validating = "Validating admission" + around
		calls      = "Call mutating webhook < Admit MutatingAdmissionWebhook < " + mutating
	)
	for _, ways := range [][]string{
		{mutating},
		// the webhook asked for a second round
		{"Admit ServiceAccount < " + mutating, "Admit ServiceAccount < " + mutating},
		{calls, calls},
		{"HTTP POST < " + calls, "HTTP POST < " + calls},
		{validating},
		{"Validate PodSecurity < " + validating},
		{"Policy " + ns + " < Validate ValidatingAdmissionPolicy < " + validating},
		{"Create etcd3" + around},
	} {
		name, _, _ := strings.Cut(ways[0], " < ")
		var found []string
		for _, span := range got.Named(name) {
			found = append(found, got.Way(span))
		}
		if !slices.Equal(found, ways) {
			t.Errorf("%s is at\n%q, want\n%q, in\n%s", name, found, ways, got)
		}
	}
	for i, span := range got.Named("Admit ServiceAccount") {
		if round := span.Attribute("admission.round"); round != strconv.Itoa(i) {
			t.Errorf("round %d is %s", i, round)
		}
	}
	if phase := got.The(t, "Mutating admission"); phase.Attribute("admission.rounds") != "2" ||
		phase.Attribute("k8s.namespace.name") != ns || phase.Attribute("operation") != "CREATE" ||
		phase.Attribute("resource") != "/v1, Resource=pods" || phase.Attribute("admission.dry_run") != "false" {
		t.Errorf("the mutating phase is %v", phase)
	}
	if policy := got.The(t, "Policy "+ns); policy.Attribute("admission.verdict") != "Admitted" ||
		policy.Attribute("admission.call.binding") != ns {
		t.Errorf("the policy's span is %v", policy)
	}
	// The webhook learns what span it is part of.
	post := got.Named("HTTP POST")[0]
	want := fmt.Sprintf("00-%s-%x-01", parent.TraceID(), post.SpanId)
	if !slices.Equal(hook.headers, []string{want}) {
		t.Errorf("the webhook got the traceparents %q, want %q", hook.headers, want)
	}
	// That of which nobody answered failed open.
	if span := got.Named("HTTP POST")[1]; span.Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR {
		t.Errorf("the call that failed is %v", span)
	}
	plugin := got.Named("Admit MutatingAdmissionWebhook")[0]
	if plugin.Attribute("admission.verdict") != "Admitted" ||
		!strings.Contains(plugin.History(), "Webhook failed: admission.call.configuration="+ns+
			" admission.call.failed_open=true admission.call.name=lost.example.com ") {
		t.Errorf("the webhooks' plugin is %v, with events %s", plugin, plugin.History())
	}

	// A refusal.
	ctx, parent = servertest.NewTrace(t.Context())
	if _, err := client.CoreV1().Pods(ns).Create(ctx, pod("q", map[string]string{"bad": ""}),
		metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	got = spans.Trace(t, parent)
	for _, name := range []string{"Validate ValidatingAdmissionPolicy", "Validating admission"} {
		span := got.The(t, name)
		if span.Attribute("admission.verdict") != "Refused" || !strings.Contains(span.History(), "exception: ") ||
			!strings.Contains(span.History(), "a bad pod") ||
			span.Status.GetCode() == tracev1.Status_STATUS_CODE_ERROR {
			t.Errorf("%s is %v", name, span)
		}
	}
	if policy := got.The(t, "Policy "+ns); policy.Attribute("admission.verdict") != "Refused" ||
		policy.Attribute("admission.why") != "a bad pod" {
		t.Errorf("the policy's span is %v", policy)
	}
	if len(got.Named("Validate ResourceQuota")) != 0 {
		t.Error("the chain went on")
	}

	// Only what clients trace is traced: the rate is 0.
	for _, span := range spans.Spans() {
		if !span.OfTest() {
			t.Errorf("trace %x has a span %s", span.TraceId, span.Name)
		}
		if span.Service != "apiserver" {
			t.Errorf("a span %s is of service %q", span.Name, span.Service)
		}
	}
}

// Storage's calls of an etcd cluster are spans of the request, and a receiver that is gone holds up
// neither requests nor the server's end.
func TestTraceOfEtcd(t *testing.T) {
	dir, err := os.MkdirTemp("", "etcd-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	storage, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer storage.Stop()
	receiver := servertest.ReceiveTraces(t)
	traces := receiver.Config(t, t.TempDir(), 1_000_000)
	cluster := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.API.Etcd.StorageConfig.Transport.ServerList = []string{storage.Endpoint()}
		c.API.Traces.ConfigFile = traces
	}))
	ctx, parent := servertest.NewTrace(t.Context())
	maps := servertest.TracedClient(cluster.Config).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := receiver.Trace(t, parent)
	const call = "etcdserverpb.KV/Txn < Create etcd3 < Create"
	if way := got.Way(got.The(t, "etcdserverpb.KV/Txn")); !strings.HasPrefix(way, call) {
		t.Errorf("the call of etcd is at %s", way)
	}
	receiver.Stop()
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	cluster.Stop()
	// The bound is 2 seconds; without it the library tries for 10 and more.
	if took := time.Since(start); took > 9*time.Second {
		t.Errorf("the server's end took %v", took)
	}
}
