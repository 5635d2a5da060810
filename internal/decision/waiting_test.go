// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/component-base/metrics/testutil"
)

// What was changed is written down behind the answer: in a moment, once there are so many or so
// large ones, or when somebody reads.
func TestWaiting(t *testing.T) {
	kept := func(s *Store) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.byName)
	}
	create := func(t *testing.T, r *rig, pod *corev1.Pod) {
		r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
			r.both(ctx, w, about(admission.Create, pod, nil))
		}})
	}
	for name, test := range map[string]struct {
		do   func(*testing.T, *Store, *rig)
		want int
	}{
		"one": {func(t *testing.T, _ *Store, r *rig) { create(t, r, newPod("web")) }, 0},
		"one, a moment later": {func(t *testing.T, _ *Store, r *rig) {
			create(t, r, newPod("web"))
			time.Sleep(waitAtMost)
			synctest.Wait()
		}, 1},
		"another, after that": {func(t *testing.T, _ *Store, r *rig) {
			for range 2 {
				create(t, r, newPod("web"))
				time.Sleep(waitAtMost)
				synctest.Wait()
			}
		}, 2},
		"many": {func(t *testing.T, _ *Store, r *rig) {
			for range maxWaiting {
				create(t, r, newPod("web"))
			}
			synctest.Wait()
		}, maxWaiting},
		"a large one": {func(t *testing.T, _ *Store, r *rig) {
			pod := newPod("web")
			pod.Annotations = map[string]string{"large": strings.Repeat("x", 1<<20)}
			create(t, r, pod)
			synctest.Wait()
		}, 1},
		"a very large one": {func(t *testing.T, _ *Store, r *rig) {
			pod := newPod("web")
			pod.Annotations = map[string]string{"large": strings.Repeat("x", 2<<20)}
			create(t, r, pod)
		}, 1},
		"that is read": {func(t *testing.T, s *Store, r *rig) {
			create(t, r, newPod("web"))
			d := only(t, s)
			if s.Get(d.Namespace, d.Name) == nil {
				t.Error("not there")
			}
		}, 1},
		"that is watched": {func(t *testing.T, s *Store, r *rig) {
			create(t, r, newPod("web"))
			w, err := s.Watch(Filter{}, "", true)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			<-w.ResultChan()
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				r := newRig(t, s, decider{admit: labelling("a", "b")}.named("A"))
				test.do(t, s, r)
				if got := kept(s); got != test.want {
					t.Errorf("%d are kept, want %d", got, test.want)
				}
				all := listed(t, s, Filter{})
				for _, d := range all {
					if len(d.Steps) == 0 || len(d.Steps[0].Patch) != 1 || d.ChangedBy[0] != "A" {
						t.Errorf("got %s", encoded(d))
					}
				}
				if value, err := testutil.GetGaugeMetricValue(heldCount); err != nil || int(value) != len(all) {
					t.Errorf("the metric says %v of %d, %v", value, len(all), err)
				}
				synctest.Wait()
			})
		})
	}
}

// Requests wait where what was changed can't be written down as fast as it comes.
func TestWaitingIsBounded(t *testing.T) {
	s := newStore()
	r := newRig(t, s, decider{admit: labelling("a", "b")}.named("A"))
	waiting := func() int {
		s.waitingMu.Lock()
		defer s.waitingMu.Unlock()
		return len(s.waiting)
	}
	s.catching.Lock() // nobody gets on
	const requests = 3 * maxWaiting
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range requests {
			r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
				r.both(ctx, w, about(admission.Create, newPod("web"), nil))
			}})
		}
	}()
	for waiting() < 2*maxWaiting {
		runtime.Gosched()
	}
	for range 1000 { // in which it would make all the others
		runtime.Gosched()
	}
	if got := waiting(); got != 2*maxWaiting {
		t.Errorf("%d are waiting, want %d", got, 2*maxWaiting)
	}
	s.catching.Unlock()
	<-done
	if all := listed(t, s, Filter{}); len(all) != requests {
		t.Errorf("%d are kept, want %d", len(all), requests)
	}
}

// A request with an event in the audit log has its own changes written down for that, and waits for no others.
func TestAuditedWaitsForNoOthers(t *testing.T) {
	s := newStore()
	r := newRig(t, s, decider{admit: labelling("a", "b")}.named("A"))
	s.catching.Lock() // as while the store writes down what others changed
	done := make(chan string, 1)
	go func() {
		var event *audit.AuditContext
		r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
			audited(t, ctx)
			event = audit.AuditContextFrom(ctx)
			r.both(ctx, w, about(admission.Create, newPod("web"), nil))
		}})
		changedBy, _ := event.GetEventAnnotation("admission.gatehouse.dev/changed-by")
		done <- changedBy
	}()
	select {
	case changedBy := <-done:
		if changedBy != "A" {
			t.Errorf("the event says that %q changed the object", changedBy)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
	s.catching.Unlock()
	if d := only(t, s); len(d.Steps[0].Patch) != 1 || d.ChangedBy[0] != "A" {
		t.Errorf("got %s", encoded(d))
	}
}
