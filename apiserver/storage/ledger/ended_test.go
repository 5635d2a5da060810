// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/quota"
)

// ahead returns a server whose clock is ahead.
func (s *shop) ahead(by time.Duration) *server {
	server := s.server()
	server.Ledger.now = func() time.Time { return time.Now().Add(by) }
	return server
}

// A server whose clock is ahead has counted without a pod. One that thinks the pod has time left deletes it.
func TestClocksDiffer(t *testing.T) {
	s := newShop(t)
	early, right := s.ahead(time.Hour), s.server()
	s.put(quotaResource, newQuota("pods", "5", "2"))
	s.put(podResource, newPod("stays"))
	revision := s.put(podResource, ending("p", time.Now().Add(time.Minute)))
	early.giveBack("demo", early.now())
	s.wantUsed("pods", "1")
	right.giveBack("demo", right.now())
	s.wantUsed("pods", "1")
	right.remove(podResource, "p", revision)
	s.wantUsed("pods", "1")
}

// A namespace that has gone leaves no set of pods that have ended.
func TestEndedGoWithTheNamespace(t *testing.T) {
	s := newShop(t)
	a := s.ahead(time.Hour)
	s.put(quotaResource, newQuota("pods", "5", "1"))
	s.put(podResource, ending("p", time.Now()))
	a.giveBack("demo", a.now())
	stored, err := s.kv.Get(t.Context(), a.endedKey("demo"))
	if err != nil || stored.Count != 1 {
		t.Fatal(stored, err)
	}
	// The delete of an earlier namespace with that name comes late.
	a.forgetEnded(t.Context(), "demo", stored.Kvs[0].ModRevision)
	if stored, err := s.kv.Get(t.Context(), a.endedKey("demo")); err != nil || stored.Count != 1 {
		t.Fatal(stored, err)
	}
	namespace, err := s.kv.Put(t.Context(), "/registry/namespaces/demo", string(s.encode(&corev1.Namespace{})))
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.store(namespaceResource).OptimisticDelete(t.Context(), "/registry/namespaces/demo",
		namespace.Header.Revision, kubernetes.DeleteOptions{})
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	if stored, err := s.kv.Get(t.Context(), a.endedKey("demo")); err != nil || stored.Count != 0 {
		t.Error(stored, err)
	}
}

// At every revision the quota shows what is stored, although servers with different clocks create pods,
// let them end, count them and delete them.
func TestQuotaIsExactWhileClocksDiffer(t *testing.T) {
	const clients, pods = 6, 12
	s := newShop(t)
	servers := []*server{s.server(), s.ahead(2 * time.Second), s.ahead(-2 * time.Second)}
	first := s.put(quotaResource, newQuota("pods", "1k", "0"))
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			server := func() *server { return servers[random.IntN(len(servers))] }
			for i := range pods {
				pod := newPod(fmt.Sprint("p", client, "-", i))
				pod.UID = types.UID(pod.Name)
				response, err := server().write(podResource, nil, pod, 0)
				if err != nil || !response.Succeeded {
					t.Error(response, err)
					return
				}
				deleter := server()
				grace := random.Int64N(3)
				pod.DeletionTimestamp = &metav1.Time{Time: deleter.now().Add(time.Duration(grace) * time.Second)}
				pod.DeletionGracePeriodSeconds = &grace
				response, err = deleter.store(podResource).OptimisticPut(t.Context(), keyOf(podResource, pod.Name),
					s.encode(pod), response.Revision, kubernetes.PutOptions{})
				if err != nil || !response.Succeeded {
					t.Error(response, err)
					return
				}
				if random.IntN(2) == 0 {
					counter := server()
					counter.giveBack("demo", counter.now())
				}
				if random.IntN(4) > 0 { // the others stay
					server().remove(podResource, pod.Name, response.Revision)
				}
			}
		})
	}
	all.Wait()
	for _, server := range servers {
		if err := server.Counted(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last, err := s.kv.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for revision := first; revision <= last.Header.Revision; revision++ {
		if s.checkUsage(servers[0], revision) {
			moved++
		}
	}
	if moved == 0 {
		t.Error("no pod ended while it was stored")
	}
}

// checkUsage checks that the quota shows the usage of the stored pods at a revision, and reports whether
// some of them ended by it.
func (s *shop) checkUsage(l *server, revision int64) (moved bool) {
	s.t.Helper()
	stored, err := s.kv.Get(s.t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		s.t.Fatal(err)
	}
	var ended []types.UID
	var pods []*corev1.Pod
	q := &corev1.ResourceQuota{}
	for _, kv := range stored.Kvs {
		switch key := string(kv.Key); key {
		case l.endedKey("demo"):
			err = json.Unmarshal(kv.Value, &ended)
			moved = kv.ModRevision == revision
		case keyOf(quotaResource, "q"):
			_, _, err = codec.Decode(kv.Value, nil, q)
		default:
			pod := &corev1.Pod{}
			_, _, err = codec.Decode(kv.Value, nil, pod)
			pods = append(pods, pod)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	total := quota.Total(q, func(yield func(*quota.Cost) bool) {
		for _, pod := range pods {
			now := time.Time{}
			if slices.Contains(ended, pod.UID) {
				now = time.Now().Add(time.Hour)
			}
			cost, err := quota.Meter{Now: func() time.Time { return now }}.CostOf(podResource, pod)
			if err != nil {
				s.t.Fatal(err)
			}
			if !yield(cost) {
				return
			}
		}
	})
	if got, want := shows(q, "pods"), total["pods"]; got != want.String() {
		s.t.Errorf("revision %d: the quota shows %s, stored are %s", revision, got, want.String())
	}
	return moved
}
