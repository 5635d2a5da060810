// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookbreaker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
	"gatehouse.dev/webhook/backend"
)

// notCalled returns what the server says of backends that it doesn't call, by their address.
func notCalled(t testing.TB) map[string]backend.State {
	t.Helper()
	body, err := client.CoreV1().RESTClient().Get().AbsPath("/debug/webhooks").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ NotCalled []backend.State }
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	states := map[string]backend.State{}
	for _, s := range answer.NotCalled {
		states[s.Address] = s
	}
	return states
}

// A backend that can't be reached isn't waited for again. When it is back, it is called again, and from then
// on no call is lost. Answers of 500 never keep it from being called.
func TestBreaker(t *testing.T) {
	for name, fault := range map[string]struct {
		fail, repair func(*webhooktest.Server)
		opens        bool
		why          string
	}{
		"down": {(*webhooktest.Server).Stop, (*webhooktest.Server).Restart, true, "connection refused"},
		"loses its certificate": {func(b *webhooktest.Server) {
			b.UseCertificate(webhooktest.NewAuthority(t).Serving(time.Now().Add(time.Hour), "127.0.0.1"))
			b.Stop()
			b.Restart()
		}, func(b *webhooktest.Server) {
			b.UseCertificate(b.Authority.Serving(time.Now().Add(time.Hour), "127.0.0.1"))
		}, true, "x509"},
		"answers 500": {func(b *webhooktest.Server) { b.SetHandler(webhooktest.Status(500, "text/plain", "no")) },
			func(b *webhooktest.Server) { b.SetHandler(webhooktest.Allow()) }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			b := webhooktest.New(t, webhooktest.Allow())
			remove := install(t, ns, b, admissionregistrationv1.Fail)
			write := func(name string) error {
				return create(t.Context(), ns, name)
			}
			if err := write("healthy"); err != nil {
				t.Fatal(err)
			}
			fault.fail(b)
			if !fault.opens {
				for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
					if err := write("broken"); err == nil || strings.Contains(err.Error(), "not asked") {
						t.Errorf("the error is %v", err)
					}
				}
			} else {
				var err error
				servertest.Eventually(t, "calls to fail at once", func() bool {
					err = write("broken")
					return err != nil && strings.Contains(err.Error(), "not asked, as no connection could be made since ")
				})
				if !strings.Contains(err.Error(), fault.why) {
					t.Errorf("the error is %v, want %s", err, fault.why)
				}
				state := notCalled(t)[b.Address()]
				if state.NotMade == 0 || !strings.Contains(state.Why, fault.why) {
					t.Errorf("/debug/webhooks says %+v", state)
				}
				metrics, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
				want := fmt.Sprintf("gatehouse_webhook_breaker_open{address=%q,server=\"127.0.0.1\"} 1\n", b.Address())
				if err != nil || !strings.Contains(string(metrics), want) {
					t.Errorf("the metrics don't say that it isn't called (%v)", err)
				}
			}
			fault.repair(b)
			servertest.Eventually(t, "the backend to be called", func() bool { return write("back") == nil })
			var writes sync.WaitGroup
			for i := range 50 {
				writes.Go(func() {
					if err := write(fmt.Sprint("after-", i)); err != nil {
						t.Error(err)
					}
				})
			}
			writes.Wait()
			remove()
		})
	}
}

// A tenant's objects that a webhook takes too long to judge, or breaks connections about, or answers about with
// nonsense, fail by themselves. The objects of others are judged as before, under either failure policy.
func TestBesideATenantsFailures(t *testing.T) {
	for name, handler := range map[string]http.Handler{
		"slow":    webhooktest.Hang(),
		"breaks":  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"fails":   webhooktest.Status(500, "text/plain", "no"),
		"garbage": webhooktest.HTML(),
	} {
		for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
			admissionregistrationv1.Ignore} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				ns := namespace(t)
				b := webhooktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					switch {
					case bytes.Contains(body, []byte(`"name":"tenant`)):
						handler.ServeHTTP(w, r)
					case bytes.Contains(body, []byte(`"name":"bad`)):
						webhooktest.Deny(http.StatusForbidden, "it is bad").ServeHTTP(w, r)
					default:
						webhooktest.Allow().ServeHTTP(w, r)
					}
				}))
				install(t, ns, b, policy)
				ctx, stop := context.WithCancel(t.Context())
				var attacking sync.WaitGroup
				failed := make(chan error, 1000)
				for i := range 4 {
					attacking.Go(func() {
						for ctx.Err() == nil {
							select {
							case failed <- create(ctx, ns, fmt.Sprint("tenant-", i)):
							case <-ctx.Done():
							}
						}
					})
				}
				for range 5 { // of which at least two follow one another
					if err := <-failed; (err == nil) != (policy == admissionregistrationv1.Ignore) {
						t.Errorf("the tenant's write: %v", err)
					}
				}
				for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
					if err := create(t.Context(), ns, "good"); err != nil {
						t.Errorf("a good object: %v", err)
					}
					if err := create(t.Context(), ns, "bad"); err == nil || !strings.Contains(err.Error(), "it is bad") {
						t.Errorf("a bad object: %v", err)
					}
				}
				stop()
				attacking.Wait()
				if state, open := notCalled(t)[b.Address()]; open {
					t.Errorf("it isn't called: %+v", state)
				}
			})
		}
	}
}

// A backend that is up for a second and down for the next isn't lost: it is called whenever it has been
// up for two seconds.
func TestBreakerOfFlappingBackend(t *testing.T) {
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow())
	install(t, ns, b, admissionregistrationv1.Fail)
	ctx, stop := context.WithCancel(t.Context())
	var writes sync.WaitGroup
	for i := range 4 {
		writes.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				_ = create(ctx, ns, fmt.Sprint("flap-", i))
				time.Sleep(20*time.Millisecond - time.Since(start))
			}
		})
	}
	for range 4 {
		b.Stop()
		time.Sleep(time.Second)
		b.Restart()
		time.Sleep(time.Second)
	}
	stop()
	writes.Wait()
	servertest.Eventually(t, "the backend to be called", func() bool {
		return create(t.Context(), ns, "up") == nil
	})
}

// When a configuration is gone, nobody connects to its backend any more.
func TestBreakerEndsWithConfiguration(t *testing.T) {
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow())
	remove := install(t, ns, b, admissionregistrationv1.Fail)
	b.Stop()
	servertest.Eventually(t, "calls to fail at once", func() bool {
		_ = create(t.Context(), ns, "broken")
		return notCalled(t)[b.Address()].NotMade > 0
	})
	remove()
	servertest.Eventually(t, "the backend to be forgotten, and nobody to connect to it", func() bool {
		_, known := notCalled(t)[b.Address()]
		return !known && stacksWith("backend.(*connPool).probe") == 0
	})
}

// stacksWith counts the goroutines in a function.
func stacksWith(function string) int {
	all := make([]byte, 16<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), function+"(")
}

// Fifty dead backends under Ignore cost a write nothing once they aren't called, and one goroutine each.
func TestManyDeadBackends(t *testing.T) {
	ns := namespace(t)
	var backends []*webhooktest.Server
	var removes []func()
	for range 50 {
		b := webhooktest.New(t, webhooktest.Allow())
		backends, removes = append(backends, b), append(removes, install(t, ns, b, admissionregistrationv1.Ignore))
	}
	for _, b := range backends { // not before all are there: the next one might get the port of one that is stopped
		b.Stop()
	}
	servertest.Eventually(t, "no backend to be called", func() bool {
		if err := create(t.Context(), ns, "many"); err != nil {
			t.Error(err)
		}
		return len(notCalled(t)) == 50
	})
	if probing := stacksWith("backend.(*connPool).probe"); probing != 50 {
		t.Errorf("%d goroutines connect to 50 backends", probing)
	}
	for _, remove := range removes {
		remove()
	}
	servertest.Eventually(t, "the backends to be forgotten", func() bool {
		return len(notCalled(t)) == 0 && stacksWith("backend.(*connPool).probe") == 0
	})
}
