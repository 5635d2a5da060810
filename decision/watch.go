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

// A Filter says which decisions somebody wants. The zero Filter is all of them.
type Filter struct {
	// Namespace is that of the decisions, empty for all.
	Namespace string
	// Labels and Fields select them; nil for all. Fields are those of v1alpha1.Fields.
	Labels labels.Selector
	Fields fields.Selector
}

// may tells whether a record may be wanted, by what is quickly told.
func (f *Filter) may(p packed) bool {
	return f.Namespace == "" || hashOfNamespace(f.Namespace) == p.namespace
}

// Matches tells whether a decision is wanted.
func (f *Filter) Matches(d *v1alpha1.Decision) bool {
	return (f.Namespace == "" || f.Namespace == d.Namespace) &&
		(f.Labels == nil || f.Labels.Matches(labels.Set(d.Labels))) &&
		(f.Fields == nil || f.Fields.Matches(v1alpha1.Fields(d)))
}

type change int

const (
	added change = iota
	deleted
)

// event is what a watcher is told.
type event struct {
	change   change
	record   packed
	revision uint64
}

// watcher is one watch. Events wait in a buffer for who reads them; the watch of a client that
// doesn't ends, and the client lists again.
type watcher struct {
	store  *Store
	want   Filter
	events chan event
	result chan watch.Event
	stop   chan struct{}
	once   sync.Once
	read   unpacker
}

// watchBuffer is how many events may wait for a watcher that is busy.
const watchBuffer = 1000

// Watch tells of all changes after a revision as List gave it. Empty, "0" or with initial set, it
// first tells of all that there is; with initial a bookmark says where that ends. A revision whose
// changes are no longer known is the error Expired.
func (s *Store) Watch(want Filter, revision string, initial bool) (watch.Interface, error) {
	s.catchUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := initial || revision == "" || revision == "0"
	var since uint64
	if !all {
		var err error
		if since, err = strconv.ParseUint(revision, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: invalid value %q", revision))
		}
		if since < s.oldest || since > s.revision {
			return nil,
				apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s (%d)", revision, s.oldest))
		}
	}
	var events []event
	for _, p := range s.records(&want) {
		if all || p.revision > since {
			events = append(events, event{added, p, p.revision})
		}
	}
	if !all {
		events = s.since(since, &want, events)
	}
	w := &watcher{store: s, want: want, events: make(chan event, watchBuffer), result: make(chan watch.Event),
		stop: make(chan struct{})}
	s.watchers[w] = struct{}{}
	watching.Inc()
	go w.run(events, initial, s.revision)
	return w, nil
}

// since adds the deletions after a revision to what was added after it, in order. What was added
// and deleted since is told as both.
func (s *Store) since(since uint64, want *Filter, events []event) []event {
	for _, d := range s.gone {
		if d.revision <= since || !want.may(d.of) {
			continue
		}
		if d.of.revision > since {
			events = append(events, event{added, d.of, d.of.revision})
		}
		events = append(events, event{deleted, d.of, d.revision})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.revision, b.revision) })
	return events
}

// notify tells the watchers. It never waits: one that has no room ends.
func (s *Store) notify(c change, p packed, revision uint64) {
	for w := range s.watchers {
		if !w.want.may(p) {
			continue
		}
		select {
		case w.events <- event{c, p, revision}:
		default:
			droppedWatchersTotal.Inc()
			delete(s.watchers, w)
			close(w.events)
		}
	}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

func (w *watcher) run(events []event, initial bool, revision uint64) {
	defer close(w.result)
	defer func() {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		delete(w.store.watchers, w)
		watching.Dec()
	}()
	for _, e := range events {
		if !w.send(e) {
			return
		}
	}
	if initial {
		end := &v1alpha1.Decision{ObjectMeta: metav1.ObjectMeta{ResourceVersion: revisionString(revision),
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		if !w.put(watch.Event{Type: watch.Bookmark, Object: end}) {
			return
		}
	}
	for {
		select {
		case e, ok := <-w.events:
			if !ok || !w.send(e) {
				return
			}
		case <-w.stop:
			return
		}
	}
}

// send tells of one event, where it is wanted. It is false where nobody listens any more.
func (w *watcher) send(e event) bool {
	d := w.read.decision(e.record, w.store.server)
	if !w.want.Matches(d) {
		return true
	}
	d.ResourceVersion = revisionString(e.revision)
	kind := watch.Added
	if e.change == deleted {
		kind = watch.Deleted
	}
	return w.put(watch.Event{Type: kind, Object: d})
}

func (w *watcher) put(e watch.Event) bool {
	select {
	case w.result <- e:
		return true
	case <-w.stop:
		return false
	}
}
