// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// counted is a handler that knows how many calls are in it, and what timeouts they were told.
type counted struct {
	next     http.Handler
	inside   atomic.Int32
	mu       sync.Mutex
	timeouts []string
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.inside.Add(1)
	defer c.inside.Add(-1)
	c.mu.Lock()
	c.timeouts = append(c.timeouts, r.URL.Query().Get("timeout"))
	c.mu.Unlock()
	c.next.ServeHTTP(w, r)
}

// wantOutOfTime checks that a client sees the end of its ?timeout=. Two filters answer then, in
// different words, and where the faster one finds that the other has begun to it breaks off the
// answer.
func wantOutOfTime(t *testing.T, err error) {
	t.Helper()
	if !apierrors.IsTimeout(err) &&
		(err == nil || !strings.HasSuffix(err.Error(), "INTERNAL_ERROR; received from peer")) {
		t.Errorf("the error is %v, want 504 Timeout", err)
	}
}

// atOnce is how many writes are made where one could be stored by luck only.
const atOnce = 8

// A request's own ?timeout= bounds all calls together: the client has a 504 under Fail; no webhook is
// called any more, the call that there was is given up; and nothing is stored.
//
// Source of the 504: k8s.io/apiserver/pkg/server/filters/timeout.go,
// endpoints/handlers/finisher/finisher.go.
func TestRequestsDeadline(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		t.Parallel()
		hang := &counted{next: webhooktest.Hang()}
		b := webhooktest.New(t, hang)
		remove := install(t, p, ns,
			faulty{name: "first." + p.webhookName(), backend: b.ClientConfig("/"), timeout: 30},
			faulty{name: "second." + p.webhookName(), backend: b.ClientConfig("/"), timeout: 30})
		var writes sync.WaitGroup
		for i := range atOnce {
			writes.Go(func() {
				err := createMap(t.Context(), ns, newMap(fmt.Sprint("late", i)), "timeout", "1s")
				wantOutOfTime(t, err)
			})
		}
		writes.Wait()
		servertest.Eventually(t, "calls to be given up", func() bool { return hang.inside.Load() == 0 })
		settled(t)
		for i := range atOnce {
			wantStored(t, ns, fmt.Sprint("late", i), false)
		}
		// Of webhooks that are called one after the other, the second is never called.
		most := map[phase]int{mutatingPhase: 1, validatingPhase: 2}[p] * atOnce
		if calls := len(hang.timeouts); calls == 0 || calls > most || hang.timeouts[0] != "1s" {
			t.Errorf("webhooks were called %d times with timeouts %v, want no more than %d times", calls,
				hang.timeouts, most)
		}
		remove()
		unconnected(t, b)
	})
	wantAlive(t)
}

// Ten mutating and ten validating webhooks that hang for longer than the request has, under Ignore,
// never use up its time, whether its client gives it little or all that a write can have. A healthy
// webhook behind them is asked, and its denial is the answer.
func TestIgnoreMeansIgnore(t *testing.T) {
	leakFree(t)
	ns := namespace(t)
	hang := webhooktest.New(t, webhooktest.Hang())
	for _, p := range []phase{mutatingPhase, validatingPhase} {
		b := newBackend(t, func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if strings.HasPrefix(r.Name, string(p)) {
				return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: http.StatusConflict, Message: "no"}}
			}
			return &admissionv1.AdmissionResponse{Allowed: true}
		})
		var webhooks []faulty
		for i := range 10 {
			webhooks = append(webhooks, faulty{name: fmt.Sprintf("hang-%d.%s", i, p.webhookName()),
				backend: hang.ClientConfig("/"), timeout: 30, ignore: true})
		}
		install(t, p, ns, append(webhooks, faulty{backend: b.ClientConfig("/")})...)
	}
	var writes sync.WaitGroup
	for _, timeout := range []string{"3s", "10s", "60s"} {
		writes.Go(func() {
			name := "admitted-" + timeout
			if err := createMap(t.Context(), ns, newMap(name), "timeout", timeout); err != nil {
				t.Errorf("with ?timeout=%s: %v", timeout, err)
			}
			wantStored(t, ns, name, true)
		})
		for _, p := range []phase{mutatingPhase, validatingPhase} {
			writes.Go(func() {
				name := string(p) + "-" + timeout
				wantStatus(t, createMap(t.Context(), ns, newMap(name), "timeout", timeout), http.StatusConflict, "",
					`admission webhook "`+p.webhookName()+`" denied the request: no`)
				wantStored(t, ns, name, false)
			})
		}
	}
	writes.Wait()
}

// Each webhook's timeoutSeconds is its own: two that hang and are ignored, one after the other,
// hold up a request, and no more.
func TestEachTimeoutIsItsOwn(t *testing.T) {
	leakFree(t)
	ns := namespace(t)
	hang := &counted{next: webhooktest.Hang()}
	b, good := webhooktest.New(t, hang), newBackend(t, patch(`[{"op":"add","path":"/data/by","value":"webhook"}]`))
	install(t, mutatingPhase, ns,
		faulty{name: "1.example.com", backend: b.ClientConfig("/"), timeout: 1, ignore: true},
		faulty{name: "2.example.com", backend: b.ClientConfig("/"), timeout: 1, ignore: true},
		faulty{name: "3.example.com", backend: good.ClientConfig("/"), timeout: 30})
	got, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), newMap("c"), metav1.CreateOptions{})
	if err != nil || got.Data["by"] != "webhook" {
		t.Errorf("the object is %v (%v)", got, err)
	}
	if len(hang.timeouts) != 2 || hang.timeouts[0] != "1s" || hang.timeouts[1] != "1s" {
		t.Errorf("webhooks were called with timeouts %v", hang.timeouts)
	}
}

// A client that goes away takes the call of the webhook with it, and nothing is stored, also where
// failures are ignored.
func TestClientGoesAway(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		for name, ignore := range map[string]bool{"fail": false, "ignore": true} {
			called := make(chan struct{}, 1)
			hang := &counted{next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called <- struct{}{}
				webhooktest.Hang().ServeHTTP(w, r)
			})}
			b := webhooktest.New(t, hang)
			remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), timeout: 30, ignore: ignore})
			ctx, goAway := context.WithCancel(t.Context())
			var writes sync.WaitGroup
			for i := range atOnce {
				writes.Go(func() {
					if err := createMap(ctx, ns, newMap(fmt.Sprint(name, i))); !errors.Is(err, context.Canceled) {
						t.Errorf("the error is %v", err)
					}
				})
				<-called
			}
			goAway()
			writes.Wait()
			servertest.Eventually(t, "the calls to be given up", func() bool { return hang.inside.Load() == 0 })
			settled(t)
			for i := range atOnce {
				wantStored(t, ns, fmt.Sprint(name, i), false)
			}
			remove()
			unconnected(t, b)
		}
	})
	wantAlive(t)
}

// A configuration that is deleted while its webhook is being called stays in force for that
// request, and for no other; its connection is closed when the call is done.
func TestConfigurationDeletedDuringCall(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		called, release := make(chan struct{}), make(chan struct{})
		b := newBackend(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			called <- struct{}{}
			<-release
			if p == mutatingPhase {
				return patch(`[{"op":"add","path":"/data/by","value":"webhook"}]`)(nil)
			}
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: http.StatusConflict, Reason: "Late",
				Message: "still no"}}
		})
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), timeout: 30})
		answer := make(chan error, 1)
		go func() { answer <- createMap(t.Context(), ns, newMap("early")) }()
		<-called

		remove()
		servertest.Eventually(t, "the configuration to be out of force", func() bool { return !isProbed(t, p, ns) })
		if err := createMap(t.Context(), ns, newMap("late")); err != nil {
			t.Error(err)
		}
		close(release)
		err := <-answer
		if p == mutatingPhase {
			got, getErr := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "early", metav1.GetOptions{})
			if err != nil || getErr != nil || got.Data["by"] != "webhook" {
				t.Errorf("the object is %v (%v, %v)", got, err, getErr)
			}
		} else {
			wantStatus(t, err, http.StatusConflict, "Late",
				`admission webhook "validating\.example\.com" denied the request: still no`)
			wantStored(t, ns, "early", false)
		}
		b.only(t)
		unconnected(t, b.Server)
	})
}

// parallelCalls is how many requests at once are waiting for one webhook.
const parallelCalls = 100

// Requests wait for a slow webhook side by side: it has all of them at a time, on few connections.
func TestSlowWebhookIsCalledInParallel(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		all := make(chan struct{})
		var inside atomic.Int32
		b := newBackend(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			// It takes until all are there, not a second: they come while the slowest of machines
			// can bring them.
			if inside.Add(1) == parallelCalls {
				close(all)
			}
			<-all
			return &admissionv1.AdmissionResponse{Allowed: true}
		})
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), timeout: 30})
		var wg sync.WaitGroup
		for range parallelCalls {
			wg.Go(func() {
				object := newMap("")
				object.GenerateName = "parallel-"
				if err := createMap(t.Context(), ns, object); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// HTTP/2 takes all of them on one connection.
		if calls, handshakes := b.Calls(), b.Handshakes(); calls != parallelCalls || handshakes != 1 {
			t.Errorf("%d calls were made with %d handshakes, want %d with one", calls, handshakes, parallelCalls)
		}
		list, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored := 0
		for _, object := range list.Items {
			if object.GenerateName == "parallel-" {
				stored++
			}
		}
		if stored != parallelCalls {
			t.Errorf("%d objects are stored", stored)
		}
		remove()
		unconnected(t, b.Server)
	})
}

// The same where nobody is answered: all are refused at their deadline, and the next request is
// answered.
func TestManyHangingCalls(t *testing.T) {
	leakFree(t)
	eachPhase(t, func(t *testing.T, p phase, ns string) {
		t.Parallel()
		hang := &counted{next: webhooktest.Hang()}
		b := webhooktest.New(t, hang)
		remove := install(t, p, ns, faulty{backend: b.ClientConfig("/"), timeout: 2})
		var wg sync.WaitGroup
		for range parallelCalls / 2 { // for each of the two phases at once
			wg.Go(func() {
				object := newMap("")
				object.GenerateName = "hanging-"
				wantStatus(t, createMap(t.Context(), ns, object), http.StatusInternalServerError,
					metav1.StatusReasonInternalError, calling(p.webhookName())+post+"context deadline exceeded")
			})
		}
		wg.Wait()
		servertest.Eventually(t, "calls to be given up", func() bool { return hang.inside.Load() == 0 })
		b.SetHandler(webhooktest.Allow())
		if err := createMap(t.Context(), ns, newMap("after")); err != nil {
			t.Error(err)
		}
		if n := b.Handshakes(); n != 1 {
			t.Errorf("%d handshakes", n)
		}
		remove()
		unconnected(t, b)
	})
}
