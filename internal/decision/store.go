// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Store keeps the last decisions of a server, in memory, bounded in number and in bytes.
//
// The Recorder's records wait here for a moment before they become decisions: to write down what
// was changed takes longer than the rest of the recording, and by then the request has been
// answered. A reader has it done first.
//
// A decision is kept as its JSON. Each class of decisions has a share of the room, and may have
// more while others have less. If there is no room, the class that exceeds its share by most loses
// a decision: the oldest of the user who has most in that class. So a flood of plain decisions, or
// of refusals of one client that tries again and again, leaves the others where they are.
type Store struct {
	server   string
	isShared bool
	maxCount int
	maxBytes int64 // of the kept decisions

	// waiting are records that aren't decisions yet. Whoever makes decisions of them holds
	// catching. The timer runs if there are any.
	waitingMu       sync.Mutex
	waiting         []*record
	waitingBytes    int
	maxWaitingBytes int
	catching        sync.Mutex
	timer           *time.Timer

	mu       sync.Mutex
	revision uint64
	byName   map[objectName]*entry
	// order has all entries by revision, and some that had to go.
	order   []*entry
	classes [classes]holders
	bytes   int64
	history
	watchers map[*watcher]struct{}
}

// objectName is the namespace and the name of a decision.
type objectName struct{ namespace, name string }

// entry is a decision that is kept.
type entry struct {
	objectName
	class    class
	user     string
	revision uint64
	text     []byte // the decision in JSON, without its revision; nil once it is forgotten
	gone     bool
}

// entryOverhead is about the number of bytes that an entry takes besides its text.
const entryOverhead = 400

func (e *entry) size() int64 { return int64(len(e.text)) + entryOverhead }

// holders are the users who have decisions of a class.
type holders struct {
	users map[string]*holder
	count int
	bytes int64
}

// holder is one user's decisions of a class, the oldest first.
type holder struct {
	entries []*entry
	bytes   int64
}

// shares are the parts of the room that the classes have, in hundredths.
var shares = [classes]float64{plain: 0.2, changed: 0.3, refused: 0.5}

// NewStore returns an empty store for decisions of the server of that name: at most maxCount, in at
// most maxBytes of memory. These include the decisions that had to go but that watches may still
// ask for, and the records that wait.
func NewStore(server string, maxCount int, maxBytes int64) *Store {
	// Revisions go on from the time, so that those of an earlier process are known to be old.
	now := uint64(time.Now().UnixMicro())
	registerMetrics()
	part := maxBytes / 8
	s := &Store{server: server, maxCount: maxCount, maxBytes: maxBytes - 2*part, revision: now,
		maxWaitingBytes: int(min(part, 1<<20)), byName: map[objectName]*entry{},
		history: history{oldest: now, maxBytes: part}, watchers: map[*watcher]struct{}{}}
	for c := range classes {
		s.classes[c].users = map[string]*holder{}
	}
	s.timer = time.AfterFunc(waitAtMost, s.catchUp)
	s.timer.Stop() // until there is a record that waits
	return s
}

// SetServer sets the server's name, if it wasn't known to NewStore. isShared reports whether the
// decisions are shown together with those of other servers. It must be called before there are
// decisions.
func (s *Store) SetServer(name string, isShared bool) { s.server, s.isShared = name, isShared }

func revisionString(revision uint64) string { return strconv.FormatUint(revision, 10) }

func newName() string { return string(uuid.NewUUID()) }

// Records wait for so long at most, and until there are so many, or too many bytes of them. If
// there are twice as many, requests wait until the store has caught up.
const (
	waitAtMost = 100 * time.Millisecond
	maxWaiting = 32
)

// addSoon keeps a record. It belongs to the store until catchUp has been called.
func (s *Store) addSoon(r *record) {
	size := r.size()
	s.waitingMu.Lock()
	s.waiting, s.waitingBytes = append(s.waiting, r), s.waitingBytes+size
	n, bytes := len(s.waiting), s.waitingBytes
	s.waitingMu.Unlock()
	switch {
	case n >= 2*maxWaiting || bytes >= 2*s.maxWaitingBytes:
		s.catchUp()
	case n == maxWaiting || bytes >= s.maxWaitingBytes && bytes-size < s.maxWaitingBytes:
		go s.catchUp() // the last request isn't to wait for all
	case n == 1:
		s.timer.Reset(waitAtMost)
	}
}

// catchUp makes decisions of the records that have been waiting.
func (s *Store) catchUp() {
	s.catching.Lock()
	defer s.catching.Unlock()
	s.waitingMu.Lock()
	waiting := s.waiting
	s.waiting, s.waitingBytes = nil, 0
	s.waitingMu.Unlock()
	for _, r := range waiting {
		r.settle()
		s.add(r)
	}
}

// add keeps a decision, and lets go of others if there is no room.
func (s *Store) add(r *record) {
	d := &r.decision
	d.Labels = map[string]string{v1alpha1.ServerLabel: s.server}
	if s.maxCount == 0 {
		return
	}
	if s.isShared && r.clientsID {
		r.rename() // another server may get the same audit ID
	}
	text := encode(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.byName[objectName{d.Namespace, d.Name}] != nil {
		// A client may send the same audit ID as often as it likes.
		r.rename()
		text = encode(d)
	}
	e := &entry{objectName: objectName{d.Namespace, d.Name}, class: r.class, user: d.Request.User.Username, text: text}
	if e.size() > s.maxBytes {
		return
	}
	for len(s.byName)+1 > s.maxCount || s.bytes+e.size() > s.maxBytes {
		s.evict(e)
	}
	s.revision++
	e.revision = s.revision
	d.ResourceVersion = revisionString(e.revision)
	s.byName[e.objectName] = e
	s.order = append(s.order, e)
	s.bytes += e.size()
	s.classes[e.class].push(e)
	heldCount.Set(float64(len(s.byName)))
	heldBytes.Set(float64(s.held()))
	s.notify()
}

func (h *holders) push(e *entry) {
	of := h.users[e.user]
	if of == nil {
		of = &holder{}
		h.users[e.user] = of
	}
	of.entries, of.bytes = append(of.entries, e), of.bytes+e.size()
	h.count, h.bytes = h.count+1, h.bytes+e.size()
}

// held returns how many bytes the decisions take, with those that had to go.
func (s *Store) held() int64 { return s.bytes + s.history.bytes }

// used returns which part of the store so many entries and bytes take.
func (s *Store) used(count int, bytes int64) float64 {
	return max(float64(count)/float64(s.maxCount), float64(bytes)/float64(s.maxBytes))
}

// evict lets go of a decision for a newcomer.
func (s *Store) evict(newcomer *entry) {
	worst, excess := class(-1), 0.0
	for c := range classes {
		h := &s.classes[c]
		if h.count == 0 {
			continue
		}
		count, bytes := h.count, h.bytes
		if c == newcomer.class {
			count, bytes = count+1, bytes+newcomer.size()
		}
		if over := s.used(count, bytes) / shares[c]; worst < 0 || over > excess {
			worst, excess = c, over
		}
	}
	h := &s.classes[worst]
	var largest *holder
	most := -1.0
	for user, of := range h.users {
		count, bytes := len(of.entries), of.bytes
		if worst == newcomer.class && user == newcomer.user {
			count, bytes = count+1, bytes+newcomer.size()
		}
		if used := s.used(count, bytes); used > most {
			largest, most = of, used
		}
	}
	e := largest.entries[0]
	largest.entries[0] = nil
	largest.entries, largest.bytes = largest.entries[1:], largest.bytes-e.size()
	if len(largest.entries) == 0 {
		delete(h.users, e.user)
	}
	h.count, h.bytes = h.count-1, h.bytes-e.size()
	s.bytes -= e.size()
	delete(s.byName, e.objectName)
	e.gone = true
	if len(s.order) > 2*len(s.byName)+64 {
		s.order = slices.DeleteFunc(s.order, func(e *entry) bool { return e.gone })
	}
	evictedTotal.Inc()
	s.revision++
	s.remember(deletion{s.revision, e})
}

// Get returns the decision of that name, nil if there is none.
func (s *Store) Get(namespace, name string) *v1alpha1.Decision {
	s.catchUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byName[objectName{namespace, name}]; e != nil {
		return decode(e.text, e.revision)
	}
	return nil
}

// List returns decisions that the filter wants, the newest last. If limit is positive and there are
// more than that, the list's Continue gives the rest when it is passed as token. All pages have the
// revision of the first.
func (s *Store) List(want Filter, limit int64, token string) (*v1alpha1.DecisionList, error) {
	s.catchUp()
	s.mu.Lock()
	revision, after := s.revision, uint64(0)
	if token != "" {
		if n, err := fmt.Sscanf(token, "%d.%d", &revision, &after); n != 2 || err != nil {
			s.mu.Unlock()
			return nil, apierrors.NewBadRequest(fmt.Sprintf("continue: invalid value %q", token))
		}
	}
	texts := s.after(after, &want, len(s.order))
	s.mu.Unlock()
	list := &v1alpha1.DecisionList{ListMeta: metav1.ListMeta{ResourceVersion: revisionString(revision)},
		Items: []v1alpha1.Decision{}}
	for _, t := range texts {
		d := decode(t.text, t.revision)
		if !want.Matches(d) {
			continue
		}
		if limit > 0 && int64(len(list.Items)) == limit {
			list.Continue = ContinueToken(list.ResourceVersion, list.Items[limit-1].ResourceVersion)
			break
		}
		list.Items = append(list.Items, *d)
	}
	return list, nil
}

// ContinueToken returns the token with which List goes on after a decision, in a list of a revision.
// after is the decision's revision, or "0" for none.
func ContinueToken(revision, after string) string { return revision + "." + after }

// revisionText is the text of a decision, which never changes, and its revision.
type revisionText struct {
	revision uint64
	text     []byte
}

// after returns the first n decisions that are kept and newer than a revision, of the filter's
// namespace.
func (s *Store) after(revision uint64, want *Filter, n int) []revisionText {
	from, _ := slices.BinarySearchFunc(s.order, revision+1, func(e *entry, revision uint64) int {
		return cmp.Compare(e.revision, revision)
	})
	var texts []revisionText
	for _, e := range s.order[from:] {
		if len(texts) == n {
			break
		}
		if !e.gone && want.maySelect(e) {
			texts = append(texts, revisionText{e.revision, e.text})
		}
	}
	return texts
}

// encode returns the JSON of a decision, which is cut if it is too large.
func encode(d *v1alpha1.Decision) []byte {
	text, err := json.Marshal(d)
	for _, shorten := range []func(*v1alpha1.Step){dropPatches, dropCalls} {
		if err == nil && len(text) > maxDecision {
			for i := range d.Steps {
				shorten(&d.Steps[i])
			}
			text, err = json.Marshal(d)
		}
	}
	if err != nil { // of values that were JSON
		klog.ErrorS(err, "Cannot encode a decision", "decision", klog.KObj(d))
	}
	return text
}

// dropPatches takes the patches out of a step.
func dropPatches(s *v1alpha1.Step) {
	s.PatchCut, s.Patch = hasChanged(s), nil
	for i := range s.Calls {
		c := &s.Calls[i]
		c.PatchCut, c.Patch = c.PatchCut || len(c.Patch) > 0, nil
	}
}

// dropCalls takes out of a step whatever else may be large.
func dropCalls(s *v1alpha1.Step) {
	s.OmittedCalls += int32(len(s.Calls))
	s.Calls, s.Message = nil, cutAt(s.Message, maxName)
}

// decode returns the decision of a text that encode wrote.
func decode(text []byte, revision uint64) *v1alpha1.Decision {
	d := &v1alpha1.Decision{}
	if err := json.Unmarshal(text, d); err != nil {
		klog.ErrorS(err, "Cannot decode a decision of the store", "text", strings.ToValidUTF8(string(text), "?"))
	}
	d.ResourceVersion = revisionString(revision)
	return d
}
