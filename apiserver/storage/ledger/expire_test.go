// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

// ending is a pod whose grace period ends then.
func ending(name string, end time.Time) *corev1.Pod {
	p := newPod(name)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: end.Add(-time.Second)}, new(int64(1))
	return p
}

// Pods that are deleted after their grace period has ended, and that nobody has given back, are given back
// with them, and only once. Few counts are enough for many of them.
func TestDeletedAfterItEnded(t *testing.T) {
	s := newShop(t)
	a := s.server()
	var counted atomic.Int32
	a.before = func(what string) error {
		if what == "get /registry/pods/demo/" {
			counted.Add(1)
		}
		return nil
	}
	const pods = 20
	revisions := map[string]int64{}
	for i := range pods {
		name := fmt.Sprint("p", i)
		revisions[name] = s.put(podResource, ending(name, time.Now().Add(-time.Minute)))
	}
	s.put(podResource, newPod("stays"))
	s.put(quotaResource, newQuota("pods", "30", fmt.Sprint(pods+1)))
	for name, revision := range revisions {
		a.remove(podResource, name, revision)
	}
	if err := a.Counted(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantUsed("pods", "1")
	if n := counted.Load(); n < 1 || n > giveBackAttempts {
		t.Errorf("counted %d times", n)
	}
}

// A quota whose usage comes from a program that doesn't know its clock is right soon after a pod is deleted
// that the program no longer counted.
func TestForeignUsage(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(podResource, newPod("stays"))
	revision := s.put(podResource, ending("p", time.Now().Add(-time.Minute)))
	s.put(quotaResource, newQuota("pods", "30", "1"))
	a.remove(podResource, "p", revision)
	if err := a.Counted(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantUsed("pods", "1")
}

// The usage of a pod that is still there when its grace period ends is given back then.
func TestEnds(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota("pods", "5", "2"))
	s.put(podResource, newPod("other"))
	revision := s.put(podResource, newPod("p"))
	end := time.Now().Add(2 * time.Second).Truncate(time.Second) // what is stored has seconds
	response, err := a.store(podResource).OptimisticPut(t.Context(), keyOf(podResource, "p"),
		s.encode(ending("p", end)), revision, kubernetes.PutOptions{})
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	if used := shows(s.quota("q"), "pods"); used != "2" && time.Now().Before(end) {
		t.Errorf("before the end the quota shows %s", used)
	}
	s.awaitUsed(t.Context(), "pods", "1")
	if time.Now().Before(end) {
		t.Error("given back too early")
	}
}

// A request that measured a pod before its grace period ended doesn't give back what a count has
// given back since.
func TestGivesBackOnce(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota("pods", "5", "2"))
	s.put(podResource, newPod("other"))
	end := time.Now().Add(-time.Minute)
	revision := s.put(podResource, ending("p", end))
	a.giveBack("demo", end)
	s.wantUsed("pods", "1")
	before, err := quota.Meter{Now: func() time.Time { return end }}.CostOf(podResource, ending("p", end))
	if err != nil {
		t.Fatal(err)
	}
	succeeded := ending("p", end)
	succeeded.Status.Phase = corev1.PodSucceeded
	after, err := quota.CostOf(podResource, succeeded)
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.writeEnforced(&quota.Enforcement{Resource: podResource, Old: before, New: after}, podResource,
		succeeded, revision)
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	s.wantUsed("pods", "1")
}

// The timer of a pod that is being deleted ends with the pod, whatever ends that, and with the
// server: a pod's grace period can be years.
func TestTimersEnd(t *testing.T) {
	for name, end := range map[string]func(s *shop, a *server, revision int64){
		"the pod is deleted": func(s *shop, a *server, revision int64) { a.remove(podResource, "p", revision) },
		"the pod is done": func(s *shop, a *server, revision int64) {
			done := ending("p", time.Now().Add(2*time.Hour))
			done.Status.Phase = corev1.PodSucceeded
			if response, err := a.write(podResource, nil, done, revision); err != nil || !response.Succeeded {
				t.Fatal(response, err)
			}
		},
		"nothing limits it any more": func(s *shop, a *server, revision int64) {
			stored, err := s.kv.Get(t.Context(), keyOf(quotaResource, "q"))
			if err != nil {
				t.Fatal(err)
			}
			a.remove(quotaResource, "q", stored.Kvs[0].ModRevision)
			a.remove(podResource, "p", revision)
		},
		"the server ends": func(s *shop, a *server, revision int64) {
			a.Stop()
			a.giveBackAt("demo", keyOf(podResource, "p"), time.Now().Add(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			a := s.server()
			s.put(quotaResource, newQuota("pods", "5", "0"))
			response, err := a.write(podResource, nil, ending("p", time.Now().Add(2*time.Hour)), 0)
			if err != nil || !response.Succeeded {
				t.Fatal(response, err)
			}
			if n := len(a.endings.timers); n != 1 {
				t.Fatalf("%d timers", n)
			}
			end(s, a, response.Revision)
			if n := len(a.endings.timers); n != 0 {
				t.Errorf("%d timers are left", n)
			}
		})
	}
}

// A pod with a grace period longer than a timer can wait is neither forgotten nor counted at once.
func TestLongGracePeriod(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota("pods", "5", "0"))
	century := ending("p", time.Now().AddDate(300, 0, 0))
	if response, err := a.write(podResource, nil, century, 0); err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	s.wantUsed("pods", "1")
	if n := len(a.endings.timers); n != 1 {
		t.Errorf("%d timers", n)
	}
}

// remove deletes an object that was last changed at revision.
func (s *server) remove(r schema.GroupResource, name string, revision int64) {
	s.shop.t.Helper()
	response,
		err := s.store(r).OptimisticDelete(s.shop.t.Context(), keyOf(r, name), revision, kubernetes.DeleteOptions{})
	if err != nil || !response.Succeeded {
		s.shop.t.Fatal(response, err)
	}
}

// What etcd fails to answer at the end of a grace period is given back later.
func TestGivenBackAfterAFailure(t *testing.T) {
	for _, fails := range []string{"get " + keyOf(podResource, "p"), "get /registry/pods/demo/", "put /registry/resourcequotas/demo/q"} {
		t.Run(fails, func(t *testing.T) {
			s := newShop(t)
			a := s.server()
			a.retry = time.Millisecond
			s.put(quotaResource, newQuota("pods", "5", "2"))
			s.put(podResource, newPod("other"), ending("p", time.Now().Add(-time.Minute)))
			var failed atomic.Int32
			a.before = func(what string) error {
				if strings.HasPrefix(what, fails) && failed.Add(1) <= 2 {
					return errors.New("no leader")
				}
				return nil
			}
			a.giveBackAt("demo", keyOf(podResource, "p"), time.Now())
			s.awaitUsed(t.Context(), "pods", "1")
			if failed.Load() < 3 {
				t.Errorf("etcd was asked %d times", failed.Load())
			}
		})
	}
}
