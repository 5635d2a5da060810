// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// decider is one made of functions, of which either may be nil.
type decider struct {
	admit, validate func(context.Context, admission.Attributes) error
}

func (decider) Handles(admission.Operation) bool { return true }

func (p decider) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.admit(ctx, a)
}

func (p decider) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.validate(ctx, a)
}

func (p decider) named(name string) plugin.Descriptor {
	d := plugin.Descriptor{Name: name, New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return p, nil }}
	if p.admit != nil {
		d.Phases |= plugin.Mutating
	}
	if p.validate != nil {
		d.Phases |= plugin.Validating
	}
	return d
}

// labelling sets a label.
func labelling(key, value string) func(context.Context, admission.Attributes) error {
	return func(_ context.Context, a admission.Attributes) error {
		if object, ok := a.GetObject().(metav1.Object); ok {
			labels := object.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
			object.SetLabels(labels)
		}
		return nil
	}
}

func idle(context.Context, admission.Attributes) error { return nil }

// rig is a recorder around a chain.
type rig struct {
	*Recorder
	chain *chain.Chain
}

func newRig(t testing.TB, store *Store, plugins ...plugin.Descriptor) *rig {
	t.Helper()
	r := &rig{Recorder: NewRecorder(store, ValuesHidden)}
	var err error
	if r.chain, err = chain.New(plugins, nil, nil, r.Recorder); err != nil {
		t.Fatal(err)
	}
	return r
}

func newStore() *Store { return NewStore("server", 1000, 64<<20) }

// call is a request on its way. Its handler is what the server does with it.
type call struct {
	verb, resource, subresource, name, auditID string
	handler                                    func(ctx context.Context, w http.ResponseWriter)
}

// serve handles the request, and returns what its handler panicked with.
func (r *rig) serve(ctx context.Context, c call) (cause any) {
	resource := c.resource
	if resource == "" {
		resource = "pods"
	}
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: c.verb, APIVersion: "v1",
		Resource: resource, Subresource: c.subresource, Namespace: "shop", Name: c.name})
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "alice", Groups: []string{"devs", "system:authenticated"}})
	ctx = audit.WithAuditContext(ctx)
	audit.WithAuditID(ctx, types.UID(c.auditID))
	req := httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx)
	req.Header.Set("User-Agent", "kubectl/v1.37.2")
	defer func() { cause = recover() }()
	r.Filter(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { c.handler(req.Context(), w) })).
		ServeHTTP(httptest.NewRecorder(), req)
	return nil
}

// audited gives a request an event in the audit log.
func audited(t testing.TB, ctx context.Context) {
	t.Helper()
	config := audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}
	if err := audit.AuditContextFrom(ctx).Init(config, nil); err != nil {
		t.Fatal(err)
	}
}

// admit and validate run a phase of the chain.
func (r *rig) admit(ctx context.Context, a admission.Attributes) error {
	return r.chain.Admit(ctx, a, admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme))
}

func (r *rig) validate(ctx context.Context, a admission.Attributes) error {
	return r.chain.Validate(ctx, a, admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme))
}

// both runs both phases, and answers.
func (r *rig) both(ctx context.Context, w http.ResponseWriter, a admission.Attributes) {
	err := r.admit(ctx, a)
	if err == nil {
		err = r.validate(ctx, a)
	}
	answerWith(w, err)
}

// answerWith answers as the API server does.
func answerWith(w http.ResponseWriter, err error) {
	if err == nil {
		w.WriteHeader(http.StatusCreated)
		return
	}
	status := apierrors.NewInternalError(err).Status()
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.APIVersion, status.Kind = "v1", "Status"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(encoded(&status))
}

func encoded(object any) []byte {
	data, err := jsonOf(object)
	if err != nil {
		panic(err)
	}
	return data
}

// pod is one that a ReplicaSet makes.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}
}

// about are the attributes of a request about an object.
func about(operation admission.Operation, object, old runtime.Object,
	change ...func(*v1alpha1.Request)) admission.Attributes {
	subject := object
	if subject == nil {
		subject = old
	}
	accessor := subject.(metav1.Object)
	r := v1alpha1.Request{} // what a test wants different
	for _, change := range change {
		change(&r)
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if _, ok := subject.(*corev1.Secret); ok {
		kind.Kind, resource.Resource = "Secret", "secrets"
	}
	return admission.NewAttributesRecord(object, old, kind, accessor.GetNamespace(), accessor.GetName(), resource,
		r.Subresource, operation, nil, r.DryRun, &user.DefaultInfo{Name: "alice"})
}

// only is the one decision that there is.
func only(t testing.TB, s *Store) *v1alpha1.Decision {
	t.Helper()
	all := listed(t, s, Filter{})
	if len(all) != 1 {
		t.Fatalf("there are %d decisions, want 1: %s", len(all), encoded(all))
	}
	return &all[0]
}

// listed is what the filter wants of the store.
func listed(t testing.TB, s *Store, want Filter) []v1alpha1.Decision {
	t.Helper()
	list, err := s.List(want, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
