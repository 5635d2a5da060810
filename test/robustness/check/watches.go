// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net/http"
	"slices"
)

// checkWatches checks that each watch of Registers had every event between its first revision and
// its last, once, in order, and as etcd has it. A watch that resumes another one begins at the
// revision at which that one ended, so nothing is lost between them either.
func (h *History) checkWatches(s *store, r *Report) {
	events := s.watchEvents()
	last := map[string]int64{}
	for _, w := range h.Watches {
		r.count("watches")
		if w.Code != http.StatusOK {
			r.count(fmt.Sprintf("watches with answer %d", w.Code))
		} else if before, ok := last[w.Client]; ok && before == w.From && len(w.Events) > 0 {
			r.count("resumed watches")
		}
		if w.Error != 0 {
			r.count(fmt.Sprintf("watches with error %d", w.Error))
		}
		h.checkWatch(w, events, r)
		last[w.Client] = w.last()
	}
}

// last returns the last revision that a watch has told.
func (w *Watch) last() int64 {
	if len(w.Events) == 0 {
		return w.From
	}
	return w.Events[len(w.Events)-1].Revision
}

func (h *History) checkWatch(w Watch, events []WatchEvent, r *Report) {
	next, _ := slices.BinarySearchFunc(events, w.From+1, func(e WatchEvent, revision int64) int {
		return int(e.Revision - revision)
	})
	last := w.From
	for _, got := range w.Events {
		if got.Type == "BOOKMARK" {
			r.count("bookmarks")
			if got.Revision < last {
				r.fail("watches", "%s from %d: bookmark %d after %d", w.Client, w.From, got.Revision, last)
				return
			}
			if next < len(events) && events[next].Revision <= got.Revision {
				r.fail("watches", "%s from %d: bookmark %d came, and %+v didn't", w.Client, w.From, got.Revision,
					events[next])
				return
			}
			last = got.Revision
			continue
		}
		r.count("watch events")
		if got.Revision <= last {
			r.fail("watches", "%s from %d: %+v after revision %d", w.Client, w.From, got, last)
			return
		}
		if next == len(events) || events[next] != got {
			want := WatchEvent{}
			if next < len(events) {
				want = events[next]
			}
			r.fail("watches", "%s from %d: got %+v, want %+v", w.Client, w.From, got, want)
			return
		}
		last = got.Revision
		next++
	}
}

// watchEvents returns the events that a watch of Registers from the first revision would have.
func (s *store) watchEvents() (events []WatchEvent) {
	for _, name := range s.names {
		var before version
		for _, v := range s.versions[registerKey(name)] {
			event := WatchEvent{Type: "MODIFIED", Name: name, Revision: v.revision, Value: v.value}
			switch {
			case v.object == nil:
				event.Type, event.Value = "DELETED", before.value
			case before.object == nil:
				event.Type = "ADDED"
			}
			events = append(events, event)
			before = v
		}
	}
	slices.SortFunc(events, func(a, b WatchEvent) int { return int(a.Revision - b.Revision) })
	return events
}
