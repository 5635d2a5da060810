// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ready

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

var request = admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
	corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)

const refused = `pods "p" is forbidden: not yet ready to handle request`

// gate is a gate that opens once pods and nodes have synced, and what starts them.
func gate(t *testing.T) (Gate, func()) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	g := After(factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer())
	return g, func() { factory.StartWithContext(ctx) }
}

func TestNothingToWaitFor(t *testing.T) {
	if err := After().Wait(t.Context(), request); err != nil {
		t.Error(err)
	}
}

func TestAnd(t *testing.T) {
	g, start := gate(t)
	start()
	more := make(chan struct{})
	both := g.And(more)
	if err := g.Wait(t.Context(), request); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := both.Wait(ctx, request); err == nil || err.Error() != refused {
		t.Errorf("before the last has synced: %v", err)
	}
	close(more)
	if err := both.Wait(ctx, request); err != nil {
		t.Error(err)
	}
}

func TestItOpensWhenAllHaveSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := gate(t)
		waited := make(chan error)
		go func() { waited <- g.Wait(t.Context(), request) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("before anything has synced: %v", err)
		default:
		}
		start()
		began := time.Now()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if err := g.Wait(t.Context(), request); err != nil {
			t.Error(err)
		}
		if time.Since(began) >= limit {
			t.Errorf("took %v", time.Since(began))
		}
	})
}

func TestItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t)
		began := time.Now()
		if err := g.Wait(t.Context(), request); err == nil || err.Error() != refused {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != limit {
			t.Errorf("gave up after %v", waited)
		}
	})
}

func TestItGivesUpWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gate(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := g.Wait(ctx, request); err == nil || err.Error() != refused {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("gave up after %v", waited)
		}
	})
}

func TestOpenCostsNoAllocation(t *testing.T) {
	g := opened()
	if n := testing.AllocsPerRun(100, func() { _ = g.Wait(t.Context(), request) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOpen(b *testing.B) {
	g := opened()
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Wait(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}

func opened() Gate {
	closed := make(chan struct{})
	close(closed)
	return Gate{synced: []<-chan struct{}{closed}}
}
