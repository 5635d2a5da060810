// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// A webhook that, while it is being called, reads and creates objects of other kinds, and writes
// the kind that it is called for in a namespace that it isn't called for. There is nothing that a
// call holds and others need.
func TestWebhookCallsBack(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		elsewhere := namespace(t)
		var failure atomic.Pointer[error]
		b := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, api := r.Context(), client.CoreV1()
			_, err := api.Namespaces().Get(ctx, ns, metav1.GetOptions{})
			if err == nil {
				_, err = api.Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "back"}},
					metav1.CreateOptions{})
			}
			if err == nil {
				err = createMap(ctx, elsewhere, newMap("back"))
			}
			if err == nil {
				// What it is asked about isn't there yet.
				_, err = api.ConfigMaps(ns).List(ctx, metav1.ListOptions{})
			}
			if err != nil {
				failure.Store(&err)
			}
			webhooktest.Allow().ServeHTTP(w, r)
		}))
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/")})
		if err := createMap(t.Context(), ns, newMap("c")); err != nil {
			t.Error(err)
		}
		if err := failure.Load(); err != nil {
			t.Errorf("the webhook got %v", *err)
		}
		wantStored(t, ns, "c", true)
		wantStored(t, elsewhere, "back", true)
		if _, err := client.CoreV1().Secrets(ns).Get(t.Context(), "back", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		remove()
		unconnected(t, b)
	})
}

// A webhook that creates an object of the kind it is called for before it answers is called for
// that, and so on. The first call's timeout ends it: what that call was doing is cancelled, and
// with it all that came of it. Nothing is stored.
func TestWebhookCallsItself(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		var calls counted
		calls.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// As any client does that passes on the context it has.
			if err := createMap(r.Context(), ns,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "again-"}}); err != nil {
				webhooktest.Respond(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
					return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: http.StatusForbidden,
						Reason: metav1.StatusReasonForbidden, Message: "can't create another: " + err.Error()}}
				}).ServeHTTP(w, r)
				return
			}
			webhooktest.Allow().ServeHTTP(w, r)
		})
		b := webhooktest.New(t, &calls)
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), timeout: 1})
		// Or the second call's timeout, which is next to it.
		if err := createMap(t.Context(), ns, newMap("first")); apierrors.IsForbidden(err) {
			wantStatus(t, err, http.StatusForbidden, metav1.StatusReasonForbidden,
				`(admission webhook "\S+" denied the request: can't create another: )+`+calling(
					p.webhookName())+post+"context deadline exceeded")
		} else {
			wantStatus(t, err, http.StatusInternalServerError, metav1.StatusReasonInternalError,
				calling(p.webhookName())+post+"context deadline exceeded")
		}
		servertest.Eventually(t, "all calls to be given up", func() bool { return calls.inside.Load() == 0 })
		settled(t)
		if n := b.Calls(); n < 2 {
			t.Errorf("the webhook was called %d times", n)
		}
		remove()
		servertest.Eventually(t, "the configuration to be out of force", func() bool { return !isProbed(t, p, ns) })
		list, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if object.Name == "first" || object.GenerateName == "again-" {
				t.Errorf("%s is stored", object.Name)
			}
		}
		unconnected(t, b)
	})
	wantAlive(t)
}

// A webhook that updates the object whose update it is called for makes that an update of an object
// that has changed meanwhile. With a resourceVersion that is a conflict. Without, the server tries
// again, and the webhook does, until the request's deadline.
//
// Source: GuaranteedUpdate in k8s.io/apiserver/pkg/storage/etcd3/store.go, Update in
// registry/generic/registry/store.go.
func TestWebhookUpdatesTheSameObject(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		maps := client.CoreV1().ConfigMaps(ns)
		object, err := maps.Create(t.Context(), newMap("c"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		update := func(ctx context.Context, object *corev1.ConfigMap, timeout string) error {
			return client.CoreV1().RESTClient().Put().Namespace(ns).Resource("configmaps").Name("c").Param("timeout",
				timeout).Body(object).Do(ctx).Error()
		}
		var calls atomic.Int64
		b := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner := newMap("c")
			inner.Data["a"] = strconv.FormatInt(calls.Add(1), 10)
			if err := update(r.Context(), inner, "10s"); err != nil && r.Context().Err() == nil {
				t.Errorf("the webhook's own update: %v", err)
			}
			webhooktest.Allow().ServeHTTP(w, r)
		}))
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), labels: map[string]string{"outer": "yes"}})

		object.Labels = map[string]string{"outer": "yes"}
		wantStatus(t, update(t.Context(), object, "10s"), http.StatusConflict, metav1.StatusReasonConflict,
			`Operation cannot be fulfilled on configmaps "c": the object has been modified; .*`)
		before := calls.Load()
		if before != 1 && before != 2 {
			t.Errorf("for a conflict the webhook was called %d times", before)
		}
		object.ResourceVersion = ""
		wantOutOfTime(t, update(t.Context(), object, "1s"))
		servertest.Eventually(t, "the server to be done", func() bool {
			return !slices.ContainsFunc(stacks(),
				func(stack string) bool { return strings.Contains(stack, "/endpoints/handlers.UpdateResource") })
		})
		got, err := maps.Get(t.Context(), "c", metav1.GetOptions{})
		if n := calls.Load(); err != nil || n < before+2 || got.Labels["outer"] != "" {
			t.Errorf("after %d calls the object is %v (%v)", n, got, err)
		}
		remove()
		unconnected(t, b)
	})
	wantAlive(t)
}
