// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Store keeps the last decisions of a server, in memory, bounded in number and in bytes.
//
// It keeps the Recorder's records, and makes a decision of one when it is read. Each class of
// decisions has a share of the room, and may have more while others have less. If there is no room,
// the class that exceeds its share by most loses a decision: the oldest of the user who has most in
// that class. So a flood of plain decisions, or of refusals of one client that tries again and
// again, leaves the others where they are.
type Store struct {
	labels   map[string]string // of its decisions
	isShared bool
	maxCount int
	maxBytes int64 // of the kept decisions

	mu       sync.Mutex
	revision uint64
	byName   map[objectName]*record
	// order has all records by revision, and some that had to go.
	order   []*record
	classes [classes]holders
	bytes   int64
	history
	watchers map[*watcher]struct{}
}

// objectName is the namespace and the name of a decision.
type objectName struct{ namespace, name string }

// holders are the users who have decisions of a class.
type holders struct {
	users map[string]*holder
	count int
	bytes int64
}

// holder is one user's decisions of a class, the oldest first.
type holder struct {
	records []*record
	bytes   int64
}

// shares are the parts of the room that the classes have, in hundredths.
var shares = [classes]float64{plain: 0.2, changed: 0.3, refused: 0.5}

// NewStore returns an empty store for decisions of the server of that name: at most maxCount, in at
// most maxBytes of memory. These include the decisions that had to go but that watches may still
// ask for.
func NewStore(server string, maxCount int, maxBytes int64) *Store {
	// Revisions go on from the time, so that those of an earlier process are known to be old.
	now := uint64(time.Now().UnixMicro())
	registerMetrics()
	part := maxBytes / 8
	s := &Store{maxCount: maxCount, maxBytes: maxBytes - part, revision: now,
		byName: map[objectName]*record{}, history: history{oldest: now, maxBytes: part},
		watchers: map[*watcher]struct{}{}}
	s.SetServer(server, false)
	for c := range classes {
		s.classes[c].users = map[string]*holder{}
	}
	return s
}

// SetServer sets the server's name, if it wasn't known to NewStore. isShared reports whether the
// decisions are shown together with those of other servers. It must be called before there are
// decisions.
func (s *Store) SetServer(name string, isShared bool) {
	s.labels, s.isShared = map[string]string{v1alpha1.ServerLabel: name}, isShared
}

func revisionString(revision uint64) string { return strconv.FormatUint(revision, 10) }

func newName() string { return string(uuid.NewUUID()) }

// add keeps a record that is complete, and lets go of others if there is no room.
func (s *Store) add(r *record) {
	r.decision.Labels = s.labels
	if s.maxCount == 0 {
		return
	}
	if s.isShared && r.clientsID {
		r.rename() // another server may get the same audit ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.byName[r.name()] != nil {
		r.rename() // a client may send the same audit ID as often as it likes
	}
	if int64(r.size) > s.maxBytes {
		return
	}
	for len(s.byName)+1 > s.maxCount || s.bytes+int64(r.size) > s.maxBytes {
		s.evict(r)
	}
	s.revision++
	r.revision = s.revision
	s.byName[r.name()] = r
	s.order = append(s.order, r)
	s.bytes += int64(r.size)
	s.classes[r.class].push(r)
	heldCount.Set(float64(len(s.byName)))
	heldBytes.Set(float64(s.held()))
	s.notify()
}

// name returns the name under which the decision is kept.
func (r *record) name() objectName { return objectName{r.decision.Namespace, r.decision.Name} }

// user returns the name of the user who made the request.
func (r *record) user() string { return r.decision.Request.User.Username }

func (h *holders) push(r *record) {
	of := h.users[r.user()]
	if of == nil {
		of = &holder{}
		h.users[r.user()] = of
	}
	of.records, of.bytes = append(of.records, r), of.bytes+int64(r.size)
	h.count, h.bytes = h.count+1, h.bytes+int64(r.size)
}

// held returns how many bytes the decisions take, with those that had to go.
func (s *Store) held() int64 { return s.bytes + s.history.bytes }

// used returns which part of the store so many entries and bytes take.
func (s *Store) used(count int, bytes int64) float64 {
	return max(float64(count)/float64(s.maxCount), float64(bytes)/float64(s.maxBytes))
}

// evict lets go of a decision for a newcomer.
func (s *Store) evict(newcomer *record) {
	worst, excess := class(-1), 0.0
	for c := range classes {
		h := &s.classes[c]
		if h.count == 0 {
			continue
		}
		count, bytes := h.count, h.bytes
		if c == newcomer.class {
			count, bytes = count+1, bytes+int64(newcomer.size)
		}
		if over := s.used(count, bytes) / shares[c]; worst < 0 || over > excess {
			worst, excess = c, over
		}
	}
	h := &s.classes[worst]
	var largest *holder
	most := -1.0
	for user, of := range h.users {
		count, bytes := len(of.records), of.bytes
		if worst == newcomer.class && user == newcomer.user() {
			count, bytes = count+1, bytes+int64(newcomer.size)
		}
		if used := s.used(count, bytes); used > most {
			largest, most = of, used
		}
	}
	r := largest.records[0]
	largest.records[0] = nil
	largest.records, largest.bytes = largest.records[1:], largest.bytes-int64(r.size)
	if len(largest.records) == 0 {
		delete(h.users, r.user())
	}
	h.count, h.bytes = h.count-1, h.bytes-int64(r.size)
	s.bytes -= int64(r.size)
	delete(s.byName, r.name())
	r.gone = true
	if len(s.order) > len(s.byName)+len(s.byName)/8+64 {
		s.order = slices.DeleteFunc(s.order, func(r *record) bool { return r.gone })
	}
	evictedTotal.Inc()
	s.revision++
	s.remember(deletion{s.revision, r})
}

// Get returns the decision of that name, nil if there is none.
func (s *Store) Get(namespace, name string) *v1alpha1.Decision {
	s.mu.Lock()
	r := s.byName[objectName{namespace, name}]
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.made()
}

// List returns decisions that the filter wants, the newest last. If limit is positive and there are
// more than that, the list's Continue gives the rest when it is passed as token. All pages have the
// revision of the first.
func (s *Store) List(want Filter, limit int64, token string) (*v1alpha1.DecisionList, error) {
	s.mu.Lock()
	revision, after := s.revision, uint64(0)
	if token != "" {
		if n, err := fmt.Sscanf(token, "%d.%d", &revision, &after); n != 2 || err != nil {
			s.mu.Unlock()
			return nil, apierrors.NewBadRequest(fmt.Sprintf("continue: invalid value %q", token))
		}
	}
	records := s.after(after, &want, len(s.order))
	s.mu.Unlock()
	list := &v1alpha1.DecisionList{ListMeta: metav1.ListMeta{ResourceVersion: revisionString(revision)},
		Items: []v1alpha1.Decision{}}
	for _, r := range records {
		if !want.Matches(&r.decision) {
			continue
		}
		if limit > 0 && int64(len(list.Items)) == limit {
			list.Continue = ContinueToken(list.ResourceVersion, list.Items[limit-1].ResourceVersion)
			break
		}
		list.Items = append(list.Items, *r.made())
	}
	return list, nil
}

// ContinueToken returns the token with which List goes on after a decision, in a list of a revision.
// after is the decision's revision, or "0" for none.
func ContinueToken(revision, after string) string { return revision + "." + after }

// after returns the first n decisions that are kept and newer than a revision, of the filter's
// namespace.
func (s *Store) after(revision uint64, want *Filter, n int) []*record {
	from, _ := slices.BinarySearchFunc(s.order, revision+1, func(r *record, revision uint64) int {
		return cmp.Compare(r.revision, revision)
	})
	var records []*record
	for _, r := range s.order[from:] {
		if len(records) == n {
			break
		}
		if !r.gone && want.maySelect(r) {
			records = append(records, r)
		}
	}
	return records
}
