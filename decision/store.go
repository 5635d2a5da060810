package decision

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Store keeps the last decisions of a server, in memory, bounded in number and in bytes.
//
// What the Recorder knows of a request waits here for a moment before it becomes a decision: to
// write down what was changed takes longer than all else that recording does, and less where
// several are written one after the other, which by then have been answered. Whoever reads has it
// done first.
//
// Each class of decisions has a share of the room, and may have more while others have less. What
// goes first, where there is no room, is the oldest of the class that exceeds its share by most. So
// a flood of plain decisions, or of refusals by a client that tries again and again, leaves the
// others where they are.
type Store struct {
	server   string
	maxCount int
	maxBytes int64

	// waiting are records that aren't settled yet, catching is for who settles them. The timer runs
	// where there are any.
	waitingMu    sync.Mutex
	waiting      []*room
	waitingBytes int
	catching     sync.Mutex
	timer        *time.Timer

	mu       sync.Mutex
	revision uint64
	// oldest is the revision from which on changes are still known.
	oldest uint64
	queues [classes]queue
	byName map[nameHash]place
	coder  coder
	// gone are the last deletions, in a ring: eldest is the next one to be forgotten.
	gone     []deletion
	eldest   int
	watchers map[*watcher]struct{}
}

// deletion is that of a record that had to go, for watchers that come back.
type deletion struct {
	revision uint64
	of       packed
}

// shares are the parts of the room that the classes have, in hundredths.
var shares = [classes]int64{plain: 20, changed: 30, refused: 50}

// maxGone is how many deletions are kept.
const maxGone = 1000

// NewStore returns an empty store for decisions of the server of that name: at most so many, and
// roughly so many bytes.
func NewStore(server string, maxCount int, maxBytes int64) *Store {
	// Revisions go on from the time, so that those of an earlier process are known to be old.
	now := uint64(time.Now().UnixMicro())
	registerMetrics()
	s := &Store{server: server, maxCount: maxCount, maxBytes: maxBytes, revision: now, oldest: now,
		byName: map[nameHash]place{}, coder: coder{writes: true}, watchers: map[*watcher]struct{}{}}
	for c := range classes {
		s.queues[c] = queue{class: c, blockSize: blockSizeOf(maxBytes)}
	}
	s.timer = time.AfterFunc(waitAtMost, s.catchUp)
	s.timer.Stop() // until there is a record that waits
	return s
}

func revisionString(revision uint64) string { return strconv.FormatUint(revision, 10) }

func newName() string { return string(uuid.NewUUID()) }

// Records wait for so long at most, and until there are so many, or so many bytes of them. While
// there are twice as many, those who settle them don't keep up, and requests wait instead.
const (
	waitAtMost      = 100 * time.Millisecond
	maxWaiting      = 32
	maxWaitingBytes = 1 << 20
)

// addSoon keeps a record that isn't settled. It is the store's until catchUp has been called, which
// others do, too.
func (s *Store) addSoon(r *room) {
	size := r.record.size()
	s.waitingMu.Lock()
	s.waiting, s.waitingBytes = append(s.waiting, r), s.waitingBytes+size
	n, bytes := len(s.waiting), s.waitingBytes
	s.waitingMu.Unlock()
	switch {
	case n >= 2*maxWaiting || bytes >= 2*maxWaitingBytes:
		s.catchUp()
	case n == maxWaiting || bytes >= maxWaitingBytes && bytes-size < maxWaitingBytes:
		go s.catchUp() // the last of them isn't to wait for all
	case n == 1:
		s.timer.Reset(waitAtMost)
	}
}

// catchUp keeps the records that have been waiting.
func (s *Store) catchUp() {
	s.catching.Lock()
	defer s.catching.Unlock()
	s.waitingMu.Lock()
	waiting := s.waiting
	s.waiting, s.waitingBytes = nil, 0
	s.waitingMu.Unlock()
	for _, r := range waiting {
		r.record.settle()
		s.add(&r.record)
		r.release()
	}
}

// add keeps a record, and lets go of others where there is no room.
func (s *Store) add(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := r.pack(&s.coder)
	if sizeOf(text) > s.maxBytes || s.maxCount == 0 {
		return
	}
	name, namespace := hashOf(r.namespace, r.name), hashOfNamespace(r.namespace)
	for _, taken := s.byName[name]; taken; _, taken = s.byName[name] {
		// A client may send the same audit ID as often as it likes.
		if r.auditID == "" {
			r.auditID = r.name
		}
		r.name = newName()
		name, text = hashOf(r.namespace, r.name), r.pack(&s.coder)
	}
	size := sizeOf(text)
	for len(s.byName)+1 > s.maxCount || s.bytes()+size > s.maxBytes {
		s.evict(r.class, size)
	}
	s.revision++
	r.revision = s.revision
	at := place{class: r.class, number: s.queues[r.class].push(s.revision, name, namespace, text)}
	s.byName[name] = at
	heldCount.Set(float64(len(s.byName)))
	heldBytes.Set(float64(s.bytes()))
	if len(s.watchers) > 0 { // it takes a copy
		s.notify(added, s.at(at), s.revision)
	}
}

// bytes is how much memory the records take, roughly.
func (s *Store) bytes() (n int64) {
	for c := range classes {
		n += s.queues[c].bytes
	}
	return n
}

// at is the record in a place.
func (s *Store) at(at place) packed { return s.queues[at.class].at(at.number) }

// evict lets go of the oldest of the class that exceeds its share by most, once the newcomer is
// there, of that class and size.
func (s *Store) evict(newcomer class, size int64) {
	worst, excess := class(-1), 0.0
	for c := range classes {
		q := &s.queues[c]
		if q.len() == 0 {
			continue
		}
		count, bytes := q.len(), q.bytes
		if c == newcomer {
			count, bytes = count+1, bytes+size
		}
		used := max(float64(count)/float64(s.maxCount), float64(bytes)/float64(s.maxBytes))
		if over := used * 100 / float64(shares[c]); worst < 0 || over > excess {
			worst, excess = c, over
		}
	}
	evictedTotal.Inc()
	p, name := s.queues[worst].pop()
	delete(s.byName, name)
	s.revision++
	if d := (deletion{s.revision, p}); len(s.gone) < maxGone {
		s.gone = append(s.gone, d)
	} else {
		s.oldest = s.gone[s.eldest].revision
		s.gone[s.eldest] = d
		s.eldest = (s.eldest + 1) % maxGone
	}
	s.notify(deleted, p, s.revision)
}

// Get returns the decision of that name, nil where there is none.
func (s *Store) Get(namespace, name string) *v1alpha1.Decision {
	s.catchUp()
	s.mu.Lock()
	at, ok := s.byName[hashOf(namespace, name)]
	var p packed
	if ok {
		p = s.at(at)
	}
	s.mu.Unlock()
	if !ok {
		return nil
	}
	if d := new(unpacker).decision(p, s.server); d.Namespace == namespace && d.Name == name {
		return d
	}
	return nil
}

// List returns the decisions that the filter wants, the newest last, and the revision of the store.
func (s *Store) List(want Filter) ([]v1alpha1.Decision, string) {
	s.catchUp()
	s.mu.Lock()
	records, revision := s.records(&want), s.revision
	s.mu.Unlock()
	decisions := []v1alpha1.Decision{}
	var u unpacker
	for _, p := range records {
		if d := u.decision(p, s.server); want.Matches(d) {
			decisions = append(decisions, *d)
		}
	}
	return decisions, revisionString(revision)
}

// records are those that the filter may want, in order. Records don't change once they are kept.
func (s *Store) records(want *Filter) []packed {
	var all []packed
	for c := range classes {
		q := &s.queues[c]
		for i := range q.entries[q.first:] {
			if p := q.packed(&q.entries[q.first+i]); want.may(p) {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b packed) int { return cmp.Compare(a.revision, b.revision) })
	return all
}
