// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Filter selects decisions. The zero Filter selects all.
type Filter struct {
	// Namespace is the namespace of the decisions, empty for all.
	Namespace string
	// Namespaced leaves out decisions about objects without a namespace.
	Namespaced bool
	// Labels and Fields select them; nil for all. Fields are those of v1alpha1.Fields.
	Labels labels.Selector
	Fields fields.Selector
}

// maySelect reports whether the filter may select a record, by its namespace.
func (f *Filter) maySelect(r *record) bool {
	return f.Namespace == "" || f.Namespace == r.decision.Namespace
}

// Matches reports whether the filter selects a decision.
func (f *Filter) Matches(d *v1alpha1.Decision) bool {
	return (f.Namespace == "" || f.Namespace == d.Namespace) && (!f.Namespaced || d.Request.Namespace != "") &&
		(f.Labels == nil || f.Labels.Matches(labels.Set(d.Labels))) &&
		(f.Fields == nil || f.Fields.Matches(v1alpha1.Fields(d)))
}

// history holds the last deletions, for watches.
type history struct {
	deletions []deletion
	bytes     int64
	maxBytes  int64
	// oldest is the revision from which on all deletions are known.
	oldest uint64
}

// deletion is the deletion of a decision for which there was no room.
type deletion struct {
	revision uint64
	of       *record
}

// maxDeletions is the number of deletions that are kept.
const maxDeletions = 1000

// remember adds a deletion, and forgets old ones if there is no room.
func (h *history) remember(d deletion) {
	h.deletions, h.bytes = append(h.deletions, d), h.bytes+int64(d.of.size)
	for h.bytes > h.maxBytes || len(h.deletions) > maxDeletions {
		first := h.deletions[0]
		h.oldest, h.bytes = first.revision, h.bytes-int64(first.of.size)
		h.deletions[0] = deletion{}
		h.deletions = h.deletions[1:]
	}
}

// watcher is one watch. It remembers the revision up to which its client knows everything, and asks
// the store for what came after it. So the client of a watch that doesn't read costs no memory. Its
// watch ends when the store no longer knows what came after; then the client lists again.
type watcher struct {
	store  *Store
	want   Filter
	known  uint64
	since  uint64 // deletions up to this revision are not sent
	wake   chan struct{}
	result chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

// event is an event for the client of a watch.
type event struct {
	kind     watch.EventType
	revision uint64
	of       *record
}

// maxEvents is the number of events that a watcher takes from the store at a time, and maxEventBytes that of their
// bytes, unless the first has more. The store may have dropped the decisions of these events meanwhile, and its
// bounds do not count them.
const (
	maxEvents     = 16
	maxEventBytes = 1 << 20
)

// Watch sends all changes after a revision that List returned. If the revision is empty or "0", or
// initial is set, it first sends all decisions. If initial is set, a bookmark follows them. The
// error is Expired if the store no longer knows the changes since the revision.
func (s *Store) Watch(want Filter, revision string, initial bool) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{store: s, want: want, since: s.revision, wake: make(chan struct{}, 1), result: make(chan watch.Event),
		stop: make(chan struct{})}
	if !initial && revision != "" && revision != "0" {
		since, err := strconv.ParseUint(revision, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: invalid value %q", revision))
		}
		if since < s.oldest || since > s.revision {
			return nil,
				apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s (%d)", revision, s.oldest))
		}
		w.known, w.since = since, since
	}
	s.watchers[w] = struct{}{}
	watching.Inc()
	go w.run(initial)
	return w, nil
}

// next returns the next events for a watcher, and moves the watcher past them.
func (s *Store) next(w *watcher) []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []event
	for _, r := range s.after(w.known, &w.want, maxEvents+1) {
		events = append(events, event{watch.Added, r.revision, r})
	}
	for _, d := range s.deletions {
		if d.revision <= max(w.known, w.since) || !w.want.maySelect(d.of) {
			continue
		}
		if d.of.revision > w.known {
			events = append(events, event{watch.Added, d.of.revision, d.of})
		}
		events = append(events, event{watch.Deleted, d.revision, d.of})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.revision, b.revision) })
	n, bytes := 0, 0
	for n < len(events) && n < maxEvents && (n == 0 || bytes+events[n].of.size <= maxEventBytes) {
		bytes += events[n].of.size
		n++
	}
	if n == len(events) {
		w.known = s.revision
		return events
	}
	events = slices.Clone(events[:n])
	w.known = events[n-1].revision
	return events
}

// notify wakes the watchers. It ends the watches whose next changes are no longer known.
func (s *Store) notify() {
	for w := range s.watchers {
		if max(w.known, w.since) < s.oldest {
			droppedWatchersTotal.Inc()
			delete(s.watchers, w)
			w.Stop()
			continue
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

func (w *watcher) run(initial bool) {
	defer close(w.result)
	defer func() {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		delete(w.store.watchers, w)
		watching.Dec()
	}()
	for {
		events := w.store.next(w)
		for _, e := range events {
			if initial && e.revision > w.since {
				initial = false
				if !w.bookmark() {
					return
				}
			}
			if !w.send(e) {
				return
			}
		}
		if len(events) > 0 {
			continue
		}
		if initial {
			initial = false
			if !w.bookmark() {
				return
			}
		}
		select {
		case <-w.wake:
		case <-w.stop:
			return
		}
	}
}

// bookmark sends the bookmark that follows the initial decisions.
func (w *watcher) bookmark() bool {
	end := &v1alpha1.Decision{ObjectMeta: metav1.ObjectMeta{ResourceVersion: revisionString(w.since),
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	return w.put(watch.Event{Type: watch.Bookmark, Object: end})
}

// send sends an event if the filter selects it. It returns false if the watch has ended.
func (w *watcher) send(e event) bool {
	if !w.want.Matches(&e.of.decision) {
		return true
	}
	d := e.of.made()
	d.ResourceVersion = revisionString(e.revision)
	return w.put(watch.Event{Type: e.kind, Object: d})
}

func (w *watcher) put(e watch.Event) bool {
	select {
	case w.result <- e:
		return true
	case <-w.stop:
		return false
	}
}
