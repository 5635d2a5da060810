// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// history is what watches have told. Revisions tell before from after for all objects; the times
// are when it was heard.
type history struct {
	t  testing.TB
	mu sync.Mutex
	// marked and gone are when an object was known to be deleted, and when it was.
	marked, gone map[types.UID]moment
	changed      chan struct{} // closed, and replaced, at each change
	ended        atomic.Bool
}

type moment struct {
	revision uint64
	at       time.Time
}

// watching is the history of what the watches show until the test ends.
func watching(t testing.TB, watches ...func(context.Context, metav1.ListOptions) (watch.Interface, error)) *history {
	t.Helper()
	h := &history{t: t, marked: map[types.UID]moment{}, gone: map[types.UID]moment{}, changed: make(chan struct{})}
	for _, begin := range watches {
		w, err := begin(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			h.ended.Store(true)
			w.Stop()
		})
		go func() {
			for event := range w.ResultChan() {
				h.take(event)
			}
		}()
	}
	return h
}

func (h *history) take(event watch.Event) {
	object, err := meta.Accessor(event.Object)
	if h.ended.Load() {
		return // what comes of it doesn't matter any more
	}
	if err != nil {
		h.t.Errorf("a watch ends: %v", event.Object)
		return
	}
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := moment{revision, time.Now()}
	if _, ok := h.marked[object.GetUID()]; !ok && object.GetDeletionTimestamp() != nil {
		h.marked[object.GetUID()] = now
	}
	if event.Type == watch.Deleted {
		h.gone[object.GetUID()] = now
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// waitFor waits until an object is in one of the maps.
func (h *history) waitFor(in map[types.UID]moment, what string, uid types.UID) moment {
	h.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		h.mu.Lock()
		m, ok := in[uid]
		changed := h.changed
		h.mu.Unlock()
		if ok {
			return m
		}
		select {
		case <-changed:
		case <-timeout:
			h.t.Fatalf("%s is still there", what)
		}
	}
}
