// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/quota"
)

// history is all that happens to a namespace's pods and quotas, revision by revision, as etcd tells
// it.
type history struct {
	client    *clientv3.Client
	namespace string
	events    clientv3.WatchChan
	stop      context.CancelFunc
	done      chan struct{}

	mu     sync.Mutex
	latest int64
	states []state
	denied []denial
	errs   []error
}

// state is what is stored as of a revision.
type state struct {
	revision int64
	pods     map[string]*corev1.Pod
	quotas   map[string]*corev1.ResourceQuota
}

// denial is a refusal, and the revisions between which it was decided.
type denial struct {
	from, to int64
	pod      *corev1.Pod
	err      error
}

// record begins to record the namespace, whose quotas have been made.
func record(t *testing.T, store *etcd.Server, namespace string) *history {
	t.Helper()
	client := store.Client().Client
	ctx, cancel := context.WithCancel(context.Background())
	h := &history{client: client, namespace: namespace, stop: cancel, done: make(chan struct{})}
	first := state{pods: map[string]*corev1.Pod{}, quotas: map[string]*corev1.ResourceQuota{}}
	for _, prefix := range []string{"/registry/pods/", "/registry/resourcequotas/"} {
		response, err := client.Get(ctx, prefix+namespace+"/", clientv3.WithPrefix(), clientv3.WithRev(first.revision))
		if err != nil {
			t.Fatal(err)
		}
		first.revision = response.Header.Revision
		for _, kv := range response.Kvs {
			first.put(t, kv)
		}
	}
	h.states, h.latest = []state{first}, first.revision
	h.events = client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(first.revision+1))
	go h.follow(t)
	t.Cleanup(cancel)
	return h
}

// follow keeps the states. A revision is complete when one response has told it.
func (h *history) follow(t *testing.T) {
	defer close(h.done)
	for response := range h.events {
		h.mu.Lock()
		for _, event := range response.Events {
			key := string(event.Kv.Key)
			if !strings.HasPrefix(key, "/registry/pods/"+h.namespace+"/") &&
				!strings.HasPrefix(key, "/registry/resourcequotas/"+h.namespace+"/") {
				continue
			}
			last := h.states[len(h.states)-1]
			if last.revision < event.Kv.ModRevision {
				h.states = append(h.states, state{revision: event.Kv.ModRevision, pods: maps.Clone(last.pods),
					quotas: maps.Clone(last.quotas)})
			}
			now := h.states[len(h.states)-1]
			if event.Type == clientv3.EventTypeDelete {
				name := key[strings.LastIndex(key, "/")+1:]
				if strings.HasPrefix(key, "/registry/pods/") {
					delete(now.pods, name)
				} else {
					delete(now.quotas, name)
				}
			} else {
				now.put(t, event.Kv)
			}
		}
		h.latest = response.Header.Revision
		h.mu.Unlock()
	}
}

func (s state) put(t *testing.T, kv *mvccpb.KeyValue) {
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), kv.Value)
	if err != nil {
		t.Errorf("%s: %v", kv.Key, err)
		return
	}
	switch object := object.(type) {
	case *corev1.Pod:
		s.pods[object.Name] = object
	case *corev1.ResourceQuota:
		s.quotas[object.Name] = object
	}
}

// revision is the store's present one.
func (h *history) revision(ctx context.Context) int64 {
	response, err := h.client.Get(context.WithoutCancel(ctx), "/revision", clientv3.WithCountOnly())
	if err != nil {
		return 0
	}
	return response.Header.Revision
}

func (h *history) refused(from, to int64, pod *corev1.Pod, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denied = append(h.denied, denial{from: from, to: to, pod: pod, err: err})
}

// finish waits until all that has happened is recorded.
func (h *history) finish(t *testing.T) {
	t.Helper()
	put, err := h.client.Put(t.Context(), "/registry/end", "")
	if err != nil {
		t.Fatal(err)
	}
	for {
		h.mu.Lock()
		latest := h.latest
		h.mu.Unlock()
		if latest >= put.Header.Revision {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the history has no end")
		}
	}
	h.stop()
	<-h.done
}

// check holds the properties against every revision.
func (h *history) check(t *testing.T) {
	t.Helper()
	failures := 0
	fail := func(format string, args ...any) {
		if failures++; failures <= 10 {
			t.Errorf(format, args...)
		}
	}
	for i, s := range h.states {
		for name, q := range s.quotas {
			total := s.total(t, q)
			for resource, limit := range q.Spec.Hard {
				used, shown := q.Status.Used[resource]
				sum := total[resource]
				if !shown && i > 0 {
					// A limit that has just been set. Until its usage is shown nothing may move it.
					was := h.states[i-1].total(t, q)[resource]
					if sum.Cmp(was) != 0 {
						fail("revision %d: quota %s doesn't show yet how much %s is used, and that went from %s to %s",
							s.revision, name, resource, was.String(), sum.String())
					}
				} else if used.Cmp(sum) != 0 {
					fail("revision %d: quota %s shows %s of %s, stored are %s", s.revision, name, used.String(),
						resource, sum.String())
				}
				if sum.Cmp(limit) <= 0 {
					continue
				}
				// Above the limit: only because it was lowered, and never rising.
				if i == 0 {
					fail("revision %d: %s of %s are stored, quota %s allows %s", s.revision, sum.String(), resource,
						name, limit.String())
					continue
				}
				before := h.states[i-1]
				was := before.total(t, q)[resource]
				if sum.Cmp(was) > 0 {
					fail("revision %d: %s rises from %s to %s, quota %s allows %s", s.revision, resource, was.String(),
						sum.String(), name, limit.String())
				}
			}
		}
	}
	for _, d := range h.denied {
		if !h.wasFull(t, d) {
			fail("%s was refused between revisions %d and %d though there was room all the time: %v", d.pod.Name,
				d.from, d.to, d.err)
		}
	}
	if failures > 10 {
		t.Errorf("and %d failures more", failures-10)
	}
}

func (s state) total(t *testing.T, q *corev1.ResourceQuota) corev1.ResourceList {
	t.Helper()
	var costs []*quota.Cost
	for _, p := range s.pods {
		cost, err := quota.CostOf(corev1.Resource("pods"), p)
		if err != nil {
			t.Fatal(err)
		}
		costs = append(costs, cost)
	}
	return quota.Total(q, slices.Values(costs))
}

// wasFull tells whether the pod would have exceeded a quota at some revision while it was decided.
func (h *history) wasFull(t *testing.T, d denial) bool {
	cost, err := quota.CostOf(corev1.Resource("pods"), d.pod)
	if err != nil {
		t.Fatal(err)
	}
	change := quota.Change{Resource: corev1.Resource("pods"), New: cost}
	for i := len(h.states) - 1; i >= 0; i-- {
		s := h.states[i]
		if s.revision > d.to {
			continue
		}
		if _, refusal := change.Admit(slices.Collect(maps.Values(s.quotas)), nil); refusal != nil {
			return true
		}
		if s.revision < d.from {
			break // this one was in force when the request began
		}
	}
	return false
}

// exceeded tells whether an error is the refusal of a quota that is full.
func exceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}
