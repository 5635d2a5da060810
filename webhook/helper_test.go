// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/warning"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/apiserver/manifests"
	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/webhook/backend"
)

const (
	create = admission.Create
	update = admission.Update
	remove = admission.Delete
)

var ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}}

// plugins are both plugins in a cluster.
type plugins struct {
	*plugintest.Cluster
	*Mutating
	*Validating
}

// newPlugins builds both in a cluster that holds objects and the namespace ns. config is the
// configuration of both.
func newPlugins(t testing.TB, config io.Reader, objects ...runtime.Object) *plugins {
	t.Helper()
	return buildPlugins(t, config, plugintest.NewCluster(t, append(objects, ns)...))
}

// buildPlugins builds both in a cluster.
func buildPlugins(t testing.TB, config io.Reader, cluster *plugintest.Cluster) *plugins {
	t.Helper()
	cluster.Env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	cluster.Env.ValidateManifest = manifests.Validate
	p := &plugins{Cluster: cluster}
	cluster.Build(t, plugin.Descriptor{Name: "M", Phases: plugin.Mutating, Operations: plugin.EveryOperation, Server: plugin.Server{Only: "it is the server's"},
		New: func(_ io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			m, err := NewMutating(config, env)
			p.Mutating = m
			return m, err
		}}, "")
	cluster.Build(t, plugin.Descriptor{Name: "V", Phases: plugin.Validating, Operations: plugin.EveryOperation, Server: plugin.Server{Only: "it is the server's"},
		New: func(_ io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			v, err := NewValidating(nil, env)
			p.Validating = v
			return v, err
		}}, "")
	return p
}

// aWebhook is one for everything in the core group, called at client.
func aWebhook(name string, client admissionregistrationv1.WebhookClientConfig,
	changes ...func(*admissionregistrationv1.MutatingWebhook)) admissionregistrationv1.MutatingWebhook {
	none, exact, timeout := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Exact, int32(10)
	w := admissionregistrationv1.MutatingWebhook{
		Name: name, ClientConfig: client, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
		MatchPolicy: &exact, TimeoutSeconds: &timeout,
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		Rules: []admissionregistrationv1.RuleWithOperations{aRule("*", "", "v1", "*/*")},
	}
	for _, change := range changes {
		change(&w)
	}
	return w
}

func aRule(operation admissionregistrationv1.OperationType, group, version,
	resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
			Resources: []string{resource}},
	}
}

func reinvocable(w *admissionregistrationv1.MutatingWebhook) {
	policy := admissionregistrationv1.IfNeededReinvocationPolicy
	w.ReinvocationPolicy = &policy
}

func ignoringFailures(w *admissionregistrationv1.MutatingWebhook) {
	ignore := admissionregistrationv1.Ignore
	w.FailurePolicy = &ignore
}

func equivalent(w *admissionregistrationv1.MutatingWebhook) {
	policy := admissionregistrationv1.Equivalent
	w.MatchPolicy = &policy
}

func sideEffects(class admissionregistrationv1.SideEffectClass) func(*admissionregistrationv1.MutatingWebhook) {
	return func(w *admissionregistrationv1.MutatingWebhook) { w.SideEffects = &class }
}

func when(conditions ...string) func(*admissionregistrationv1.MutatingWebhook) {
	return func(w *admissionregistrationv1.MutatingWebhook) {
		for _, c := range conditions {
			w.MatchConditions = append(w.MatchConditions,
				admissionregistrationv1.MatchCondition{Name: "c", Expression: c})
		}
	}
}

// mutatingConfiguration is one with these webhooks.
func mutatingConfiguration(name string,
	webhooks ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: webhooks}
}

// validatingConfiguration is one with the same webhooks.
func validatingConfiguration(name string,
	webhooks ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, w := range webhooks {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
			MatchPolicy:       w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
			MatchConditions: w.MatchConditions,
		})
	}
	return c
}

func newPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// attributes are a request's, and what is said of it. Several goroutines may say it.
type attributes struct {
	admission.Attributes
	mu          sync.Mutex
	annotations map[string]string
	levels      map[string]auditinternal.Level
	warnings    []string
	audited     auditinternal.Level
}

func newAttributes(operation admission.Operation, object, old runtime.Object,
	options ...func(*requestOptions)) *attributes {
	o := requestOptions{kind: corev1.SchemeGroupVersion.WithKind("Pod"),
		resource: corev1.SchemeGroupVersion.WithResource("pods"), namespace: "ns"}
	for _, option := range options {
		option(&o)
	}
	var operationOptions runtime.Object = &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1",
		Kind: "CreateOptions"}}
	return &attributes{
		audited: auditinternal.LevelRequest,
		Attributes: admission.NewAttributesRecord(object, old, o.kind, o.namespace, "p", o.resource, o.subresource,
			operation, operationOptions, o.dryRun, &user.DefaultInfo{Name: "alice", Groups: []string{"g"}}),
	}
}

type requestOptions struct {
	kind                   schema.GroupVersionKind
	resource               schema.GroupVersionResource
	subresource, namespace string
	dryRun                 bool
}

func dryRun(o *requestOptions) { o.dryRun = true }

func of(kind schema.GroupVersionKind, resource string) func(*requestOptions) {
	return func(o *requestOptions) { o.kind, o.resource = kind, kind.GroupVersion().WithResource(resource) }
}

func subresource(name string) func(*requestOptions) {
	return func(o *requestOptions) { o.subresource = name }
}

func in(namespace string) func(*requestOptions) {
	return func(o *requestOptions) { o.namespace = namespace }
}

func (a *attributes) AddAnnotation(key, value string) error {
	return a.AddAnnotationWithLevel(key, value, auditinternal.LevelMetadata)
}

func (a *attributes) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if err := a.Attributes.AddAnnotationWithLevel(key, value, level); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.annotations == nil {
		a.annotations, a.levels = map[string]string{}, map[string]auditinternal.Level{}
	}
	a.annotations[key], a.levels[key] = value, level
	return nil
}

// AddWarning makes it a warning.Recorder.
func (a *attributes) AddWarning(_, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, text)
}

func (a *attributes) context(ctx context.Context) context.Context {
	ctx = audit.WithAuditContext(warning.WithWarningRecorder(ctx, a))
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: a.audited}, nil); err != nil {
		panic(err)
	}
	return ctx
}

var interfaces = admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)

// admit and validate run a phase.
func (p *plugins) admit(t testing.TB, a *attributes) error {
	return p.Mutating.Admit(a.context(t.Context()), a, interfaces)
}

func (p *plugins) validate(t testing.TB, a *attributes) error {
	return p.Validating.Validate(a.context(t.Context()), a, interfaces)
}

// wantError compares an error's text; none is wanted where want is empty.
func wantError(t testing.TB, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("the error is\n%s\nwant\n%s", got, want)
	}
}

// nobody is a client configuration for webhooks that are never called.
func nobody() admissionregistrationv1.WebhookClientConfig {
	url := "https://127.0.0.1:1/"
	return admissionregistrationv1.WebhookClientConfig{URL: &url}
}

// testCompiler compiles webhooks that are never called.
func testCompiler(t testing.TB) *compiler {
	t.Helper()
	pool, err := backend.NewPool(backend.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &compiler{expressions: expression.NewCompiler(), backends: pool}
}

// labelPatch is a patch that sets a label.
func labelPatch(key, value string) string {
	return `[{"op":"add","path":"/metadata/labels/` + key + `","value":"` + value + `"}]`
}

// answering is a backend that answers by the path it is called at, and writes down its questions.
type answering struct {
	*webhooktest.Server
	mu        sync.Mutex
	questions []*admissionv1.AdmissionReview
}

func newAnswering(t testing.TB, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *answering {
	b := &answering{}
	b.Server = webhooktest.New(t,
		webhooktest.Review(func(review *admissionv1.AdmissionReview) *admissionv1.AdmissionReview {
			b.mu.Lock()
			b.questions = append(b.questions, review)
			b.mu.Unlock()
			return &admissionv1.AdmissionReview{Response: answer(review.Request)}
		}))
	return b
}

func (b *answering) last(t testing.TB) *admissionv1.AdmissionReview {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.questions) == 0 {
		t.Fatal("the webhook was not called")
	}
	return b.questions[len(b.questions)-1]
}

func allowed(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// decode reads JSON.
func decode[T any](t testing.TB, data []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return value
}

// waitFor polls for what informers bring.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s took too long", what)
		}
	}
}

type (
	admissionRequest  = admissionv1.AdmissionRequest
	admissionResponse = admissionv1.AdmissionResponse
)

func patchResponse(patch string) *admissionResponse {
	jsonPatch := admissionv1.PatchTypeJSONPatch
	return &admissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &jsonPatch}
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// wantAnnotations compares all annotations of a request.
func wantAnnotations(t testing.TB, a *attributes, want map[string]string) {
	t.Helper()
	if !maps.Equal(a.annotations, want) {
		t.Errorf("the annotations are %q\nwant %q", a.annotations, want)
	}
}
