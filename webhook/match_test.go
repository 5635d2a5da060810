// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/legacyregistry"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugin/ready"
)

func namespaceSelector(labels map[string]string) func(*admissionregistrationv1.MutatingWebhook) {
	return func(w *admissionregistrationv1.MutatingWebhook) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: labels}
	}
}

func objectSelector(labels map[string]string) func(*admissionregistrationv1.MutatingWebhook) {
	return func(w *admissionregistrationv1.MutatingWebhook) {
		w.ObjectSelector = &metav1.LabelSelector{MatchLabels: labels}
	}
}

func aNamespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labels}}
}

// Sources: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/{namespace,object},
// generic/webhook.go, matchconditions/matcher.go.
func TestMatch(t *testing.T) {
	asNamespace := of(corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces")
	asNode := of(corev1.SchemeGroupVersion.WithKind("Node"), "nodes")
	asExec := of(corev1.SchemeGroupVersion.WithKind("PodExecOptions"), "pods")
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	a, web := map[string]string{"team": "a"}, map[string]string{"app": "web"}
	b, other := map[string]string{"team": "b"}, map[string]string{"app": "other"}
	otherPod := newPod()
	otherPod.Labels = other

	type change = func(*admissionregistrationv1.MutatingWebhook)
	for name, test := range map[string]struct {
		webhook    []change
		attributes *attributes
		called     bool
		err        string
	}{
		"nothing selected": {nil, newAttributes(create, newPod(), nil), true, ""},
		"namespace": {[]change{namespaceSelector(a)}, newAttributes(create, newPod(), nil),
			true, ""},
		"another namespace": {[]change{namespaceSelector(b)}, newAttributes(create, newPod(), nil),
			false, ""},
		"a node has none": {[]change{namespaceSelector(b)},
			newAttributes(create, node, nil, asNode, in("")), true, ""},
		"a namespace, created": {[]change{namespaceSelector(b)},
			newAttributes(create, aNamespace(b), nil, asNamespace), true, ""},
		"a namespace, created otherwise": {[]change{namespaceSelector(a)},
			newAttributes(create, aNamespace(b), nil, asNamespace), false, ""},
		"a namespace, updated": {[]change{namespaceSelector(b)},
			newAttributes(update, aNamespace(b), aNamespace(a), asNamespace), true, ""},
		"a namespace, deleted": {[]change{namespaceSelector(a)},
			newAttributes(remove, nil, aNamespace(b), asNamespace), true, ""},
		"a namespace's status": {[]change{namespaceSelector(a)},
			newAttributes(update, aNamespace(b), aNamespace(b), asNamespace,
				func(o *requestOptions) { o.subresource = "status" }), true, ""},
		"a namespace that doesn't exist": {[]change{namespaceSelector(a)},
			newAttributes(create, newPod(), nil, in("nowhere")), false, `namespaces "nowhere" not found`},
		"… which nobody wants to know": {nil, newAttributes(create, newPod(), nil, in("nowhere")), true, ""},
		"… for an object that isn't selected": {[]change{namespaceSelector(a), objectSelector(other)},
			newAttributes(create, newPod(), nil, in("nowhere")), false, ""},
		"object": {[]change{objectSelector(web)}, newAttributes(create, newPod(), nil),
			true, ""},
		"another object": {[]change{objectSelector(other)}, newAttributes(create, newPod(), nil),
			false, ""},
		"old object": {[]change{objectSelector(other)},
			newAttributes(update, newPod(), otherPod), true, ""},
		"new object": {[]change{objectSelector(web)},
			newAttributes(update, newPod(), otherPod), true, ""},
		"deleted object": {[]change{objectSelector(web)}, newAttributes(remove, nil, newPod()),
			true, ""},
		"what has no labels": {[]change{objectSelector(web)},
			newAttributes(admission.Connect, &corev1.PodExecOptions{}, nil, asExec), false, ""},
		"… not even without labels asked for": {[]change{func(
			w *admissionregistrationv1.MutatingWebhook) {
			w.ObjectSelector = lacks("app")
		}},
			newAttributes(admission.Connect, &corev1.PodExecOptions{}, nil, asExec), false, ""},
		"both": {[]change{namespaceSelector(a), objectSelector(web)},
			newAttributes(create, newPod(), nil), true, ""},
		"one of both": {[]change{namespaceSelector(a), objectSelector(other)},
			newAttributes(create, newPod(), nil), false, ""},
		"a selector that isn't one": {[]change{func(
			w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector = broken
		}},
			newAttributes(create, newPod(), nil), false,
			`Internal error occurred: webhook "w.example.com": namespaceSelector: "Has" is not a valid label ` +
				`selector operator`},
		"… for what has no namespace": {[]change{func(
			w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector = broken
		}},
			newAttributes(create, node, nil, asNode, in("")), true, ""},
		"… while the object isn't selected": {[]change{func(
			w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector = broken
		}, objectSelector(other)},
			newAttributes(create, newPod(), nil), false, ""},
		"an object selector that isn't one": {[]change{func(
			w *admissionregistrationv1.MutatingWebhook) {
			w.ObjectSelector = broken
		}},
			newAttributes(create, newPod(), nil), false,
			`Internal error occurred: webhook "w.example.com": objectSelector: "Has" is not a valid label selector ` +
				`operator`},
		"… while the namespace isn't selected": {[]change{func(
			w *admissionregistrationv1.MutatingWebhook) {
			w.ObjectSelector = broken
		}, namespaceSelector(b)},
			newAttributes(create, newPod(), nil), false, ""},
		"two that aren't": {[]change{func(w *admissionregistrationv1.MutatingWebhook) {
			w.NamespaceSelector, w.ObjectSelector = broken, broken
		}}, newAttributes(create, newPod(), nil), false,
			`Internal error occurred: webhook "w.example.com": namespaceSelector: "Has" is not a valid label ` +
				`selector operator`},
		"condition": {[]change{when(`object.metadata.name == "p"`,
			`request.userInfo.username == "alice"`)}, newAttributes(create, newPod(), nil), true, ""},
		"a false condition": {[]change{when(`true`, `object.metadata.name == "q"`)},
			newAttributes(create, newPod(), nil), false, ""},
		"old object, in a condition": {[]change{when(`oldObject.metadata.labels.app == "other" && object ` +
			`== null`)}, newAttributes(remove, nil, otherPod), true, ""},
		"request, in a condition": {[]change{when(`request.operation == "CREATE" && request.kind.kind ` +
			`== "Pod" && request.namespace == "ns" && !has(request.subResource) && request.dryRun == false`)},
			newAttributes(create, newPod(), nil), true, ""},
		"options, in a condition": {[]change{when(`request.options.kind == "CreateOptions"`)},
			newAttributes(create, newPod(), nil), true, ""},
		"the authorizer": {[]change{
			when(`authorizer.group("").resource("pods").namespace("ns").check("create").allowed()`),
		}, newAttributes(create, newPod(), nil), true, ""},
		"an erroneous condition": {[]change{when(`object.spec.nothing == "a"`)},
			newAttributes(create, newPod(), nil), false,
			`pods "p" is forbidden: webhook "w.example.com": match condition "c": expression 'object.spec.nothing ` +
				`== "a"' resulted in error: no such key: nothing`},
		"an erroneous condition, ignored": {[]change{when(`object.spec.nothing == "a"`), ignoringFailures},
			newAttributes(create, newPod(), nil), false, ""},
		"an erroneous condition and a false": {[]change{when(`object.spec.nothing == "a"`, `false`)},
			newAttributes(create, newPod(), nil), false, ""},
		"an erroneous condition and a true one": {[]change{when(`object.spec.nothing == "a"`, `true`)},
			newAttributes(create, newPod(), nil), false,
			`pods "p" is forbidden: webhook "w.example.com": match condition "c": expression 'object.spec.nothing ` +
				`== "a"' resulted in error: no such key: nothing`},
		"a condition for an unselected object": {[]change{when(`object.spec.nothing == "a"`), objectSelector(other)},
			newAttributes(create, newPod(), nil), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			backend := webhooktest.New(t, webhooktest.Allow())
			w := aWebhook("w.example.com", backend.ClientConfig("/"), test.webhook...)
			p := newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
			wantError(t, p.admit(t, test.attributes), test.err)
			if called := backend.Calls() > 0; called != test.called {
				t.Errorf("in the mutating phase called is %t, want %t", called, test.called)
			}
			before := backend.Calls()
			wantError(t, p.validate(t, test.attributes), test.err)
			if called := backend.Calls() > before; called != test.called {
				t.Errorf("in the validating phase called is %t, want %t", called, test.called)
			}
		})
	}
}

var broken = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Has"}}}

func lacks(label string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label,
		Operator: metav1.LabelSelectorOpDoesNotExist}}}
}

// The cache of namespaces may lag: a miss is read live, once a request. Where that fails nobody is
// guessing.
func TestNamespaceIsReadLive(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Allow())
	p := newPlugins(t, nil, validatingConfiguration("c",
		aWebhook("1.example.com", backend.ClientConfig("/"), namespaceSelector(map[string]string{"new": "yes"})),
		aWebhook("2.example.com", backend.ClientConfig("/"), namespaceSelector(map[string]string{"new": "yes"}))))
	reads := 0
	var failure error
	p.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fresh",
			Labels: map[string]string{"new": "yes"}}}, failure
	})
	wantError(t, p.validate(t, newAttributes(create, newPod(), nil, in("fresh"))), "")
	if backend.Calls() != 2 || reads != 1 {
		t.Errorf("%d webhooks called and %d reads, want 2 and 1", backend.Calls(), reads)
	}
	failure = errors.New("etcd is on holiday")
	err := p.validate(t, newAttributes(create, newPod(), nil, in("fresh")))
	wantError(t, err, `Internal error occurred: webhook "1.example.com": namespaceSelector: etcd is on holiday`)
	if !apierrors.IsInternalError(err) {
		t.Errorf("the error is a %v", apierrors.ReasonForError(err))
	}
}

// A namespace that can't be read in time refuses the request if a webhook under Fail needs it. Webhooks
// under Ignore fail open, and a look-up for them leaves time for another one.
func TestNamespaceThatHangs(t *testing.T) {
	backend := webhooktest.New(t, webhooktest.Allow())
	ignored := aWebhook("1.example.com", backend.ClientConfig("/"), ignoringFailures, namespaceSelector(map[string]string{"new": "yes"}))
	fails := aWebhook("2.example.com", backend.ClientConfig("/"), namespaceSelector(map[string]string{"new": "yes"}))
	for name, w := range map[string][]admissionregistrationv1.MutatingWebhook{
		"ignored": {ignored}, "both": {ignored, fails}} {
		p := newPlugins(t, nil, mutatingConfiguration("c", w...), validatingConfiguration("c", w...))
		reads := 0
		p.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			if reads++; reads%2 == 0 {
				return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fresh",
					Labels: map[string]string{"new": "yes"}}}, nil
			}
			time.Sleep(time.Second) // the time of those under Ignore is up
			return true, nil, context.DeadlineExceeded
		})
		before := backend.Calls()
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // enough for the call after what hangs
		_ = p.Mutating.ready.Wait(ctx, nil)
		wantError(t, p.Mutating.Admit(ctx, newAttributes(create, newPod(), nil, in("fresh")), interfaces), "")
		cancel()
		if calls := backend.Calls() - before; calls != len(w)-1 || reads != len(w) {
			t.Errorf("%s: %d webhooks were called after %d reads", name, calls, reads)
		}
	}
	p := newPlugins(t, nil, validatingConfiguration("c", ignored, fails))
	p.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("etcd is on holiday")
	})
	wantRefusal(t, p.validate(t, newAttributes(create, newPod(), nil, in("fresh"))), 503, "etcd is on holiday")
}

// A request whose time is over, or whose client is gone, is told so, and neither blames a condition
// nor passes by the webhook.
func TestConditionsOutOfTime(t *testing.T) {
	legacyregistry.Reset() // of an earlier run in this process
	backend := webhooktest.New(t, webhooktest.Allow())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
		admissionregistrationv1.Ignore} {
		w := aWebhook("m-late-"+string(policy), backend.ClientConfig("/"), when("object.metadata.name == 'p'"))
		w.FailurePolicy = &policy
		p := newPlugins(t, nil, mutatingConfiguration("c", w), validatingConfiguration("c", w))
		wantError(t, p.Mutating.ready.Wait(t.Context(), nil), "")
		wantError(t, p.Validating.ready.Wait(t.Context(), nil), "")
		const want = "Timeout: request did not complete within requested timeout"
		wantRefusal(t, p.Mutating.Admit(ctx, newAttributes(create, newPod(), nil), interfaces), 504, want)
		wantRefusal(t, p.Validating.Validate(ctx, newAttributes(create, newPod(), nil), interfaces), 504, want)
		wantMetrics(t, w.Name,
			"match_condition_evaluation_seconds kind=webhook,operation=CREATE,type=admit 1",
			"match_condition_evaluation_seconds kind=webhook,operation=CREATE,type=validating 1",
		)
	}
	if backend.Calls() != 0 {
		t.Errorf("the webhook was called %d times", backend.Calls())
	}
}

// Before the caches have synced requests wait; a request that goes does not.
func TestNotReady(t *testing.T) {
	e := &engine{ready: ready.Gate{}.And(make(chan struct{}))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &Mutating{e}
	wantError(t, m.Admit(ctx, newAttributes(create, newPod(), nil), interfaces),
		`pods "p" is forbidden: not yet ready to handle request`)
	v := &Validating{e}
	wantError(t, v.Validate(ctx, newAttributes(create, newPod(), nil), interfaces),
		`pods "p" is forbidden: not yet ready to handle request`)
}
