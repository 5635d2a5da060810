// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
)

// state stores an object as one that has been there before, elsewhere.
func (s *server) state(r schema.GroupResource, object runtime.Object, name string) (revision int64) {
	s.shop.t.Helper()
	response, err := s.store(r).OptimisticPut(quota.WithStatedUsage(s.shop.t.Context()), keyOf(r, name),
		s.shop.encode(object), 0, kubernetes.PutOptions{})
	if err != nil || !response.Succeeded {
		s.shop.t.Fatal(response, err)
	}
	return response.Revision
}

// The stated usage of a quota stays, except for objects that are deleted here, whatever causes a count: a
// pod that ends, or a new limit. An object that the stated usage includes isn't charged twice.
func TestStatedUsage(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(podResource, newPod("before"))
	a.state(quotaResource, newQuota("pods", "9", "5"), "q")
	s.wantUsed("pods", "5")
	revision := a.state(podResource, newPod("p"), "p")
	s.wantUsed("pods", "5")

	// As a pod is deleted that is on no node.
	ended := ending("p", time.Now().Add(-time.Second))
	response, err := a.store(podResource).OptimisticPut(t.Context(), keyOf(podResource, "p"), s.encode(ended),
		revision, kubernetes.PutOptions{})
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	a.remove(podResource, "p", response.Revision)
	if err := a.Counted(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantUsed("pods", "4")

	if response, err := a.write(podResource, nil, newPod("new"), 0); err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	s.wantUsed("pods", "5")
	q := s.quota("q")
	q.Spec.Hard["services"] = resource.MustParse("1")
	a.replace(q)
	s.wantUsed("pods", "5")
	s.wantUsed("services", "0")

	// Less than there is can be said, too.
	b := newQuota("pods", "9", "0")
	b.Name, b.UID = "few", "uid of few"
	a.state(quotaResource, b, "few")
	response, err = a.write(podResource, nil, newPod("another"), 0)
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	s.wantUsed("pods", "6")
	if used := shows(s.quota("few"), "pods"); used != "1" {
		t.Errorf("few shows %s", used)
	}
	a.giveBack("demo", time.Now())
	if used := shows(s.quota("few"), "pods"); used != "1" {
		t.Errorf("counted, few shows %s", used)
	}
	s.wantUsed("pods", "6")
}
