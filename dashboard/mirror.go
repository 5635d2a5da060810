// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"slices"
	"sync"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

const (
	// maxDecisions bounds the kept decisions. The newest are kept. A server keeps half as many by
	// default.
	maxDecisions = 20_000
	// maxPending bounds the changes that wait for a page. A slower page gets everything again.
	maxPending = 5_000
)

// mirror keeps the decisions that its user may see, as its Reflector reports them. It implements
// cache.ReflectorStore.
type mirror struct {
	limit int

	mu    sync.Mutex
	byKey map[string]*entry
	order []*entry // the oldest first; some may be gone
	state state
	pages map[*page]struct{}
}

// entry is a decision and its row as JSON. The row is made when a page needs it, so that the first
// rows don't wait for ten thousand others. Only gone ever changes.
type entry struct {
	key      string
	decision *v1alpha1.Decision
	row      func() []byte
	gone     bool
}

// state describes the source of the rows.
type state struct {
	// State is connecting, live or waiting.
	State string `json:"state"`
	// Message is the reason, and what can be done.
	Message string `json:"message,omitempty"`
	// Server is the server's address. Namespace is the one that is shown, or empty for all.
	Server    string `json:"server"`
	Namespace string `json:"namespace,omitempty"`
	// Limit is how many decisions are shown at most.
	Limit int `json:"limit"`
}

const (
	connecting = "connecting"
	live       = "live"
	waiting    = "waiting" // until the server can be reached, or lets us
)

// page is an open page, with the changes that it still has to get.
type page struct {
	wake    chan struct{} // has one element if the page has changes to get
	all     bool          // everything anew
	state   bool
	changes []change
}

type change struct {
	entry *entry
	gone  bool
}

func newMirror(limit int, s state) *mirror {
	s.Limit = limit
	return &mirror{limit: limit, byKey: map[string]*entry{}, state: s, pages: map[*page]struct{}{}}
}

func newEntry(d *v1alpha1.Decision) *entry {
	return &entry{key: key(d), decision: d, row: sync.OnceValue(func() []byte {
		encoded, _ := json.Marshal(newRow(d)) // texts and numbers always can be
		return encoded
	})}
}

// Add implements cache.ReflectorStore.
func (m *mirror) Add(object any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(object.(*v1alpha1.Decision))
	return nil
}

// filler returns a function that adds the decisions of a list while it is read. If the mirror isn't
// empty, the function does nothing: Replace finds out which decisions have gone.
func (m *mirror) filler() func([]*v1alpha1.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.byKey) > 0 {
		return func([]*v1alpha1.Decision) {}
	}
	return func(some []*v1alpha1.Decision) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, d := range some {
			m.add(d)
		}
	}
}

// Update implements cache.ReflectorStore. Decisions don't change.
func (m *mirror) Update(object any) error { return m.Add(object) }

// Delete implements cache.ReflectorStore.
func (m *mirror) Delete(object any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key(object.(*v1alpha1.Decision)))
	return nil
}

// Replace implements cache.ReflectorStore. The objects are in order, as the server lists them.
func (m *mirror) Replace(objects []any, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	objects = objects[max(0, len(objects)-m.limit):]
	if slices.EqualFunc(m.entries(), objects, func(e *entry, object any) bool { return object == any(e.decision) }) {
		return nil // all of it came while it was read
	}
	m.byKey, m.order = map[string]*entry{}, nil
	for _, object := range objects {
		m.put(newEntry(object.(*v1alpha1.Decision)))
	}
	for p := range m.pages {
		p.all, p.changes = true, nil
		p.signal()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (*mirror) Resync() error { return nil }

func (m *mirror) add(d *v1alpha1.Decision) {
	e := newEntry(d)
	m.remove(e.key)
	m.put(e)
	m.tell(change{entry: e})
	for len(m.byKey) > m.limit {
		m.removeOldest()
	}
}

func (m *mirror) put(e *entry) {
	m.byKey[e.key] = e
	m.order = append(m.order, e)
}

func (m *mirror) remove(key string) {
	e := m.byKey[key]
	if e == nil {
		return
	}
	e.gone = true
	delete(m.byKey, key)
	m.tell(change{e, true})
	if len(m.order) > 2*len(m.byKey)+100 {
		m.order = m.entries()
	}
}

func (m *mirror) removeOldest() {
	for i, e := range m.order {
		if !e.gone {
			m.order = m.order[i:]
			m.remove(e.key)
			return
		}
	}
}

// entries returns the entries that aren't gone, the oldest first.
func (m *mirror) entries() []*entry {
	kept := make([]*entry, 0, len(m.byKey))
	for _, e := range m.order {
		if !e.gone {
			kept = append(kept, e)
		}
	}
	return kept
}

func (m *mirror) tell(c change) {
	for p := range m.pages {
		switch {
		case p.all: // it will get that anyway
		case len(p.changes) == maxPending:
			p.all, p.changes = true, nil
		default:
			p.changes = append(p.changes, c)
		}
		p.signal()
	}
}

// set sets the state, and sends it to the pages if it is news.
func (m *mirror) set(name, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.State == name && m.state.Message == message {
		return
	}
	m.state.State, m.state.Message = name, message
	for p := range m.pages {
		p.state = true
		p.signal()
	}
}

// get returns the decision with that namespace/name, or nil.
func (m *mirror) get(key string) *v1alpha1.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[key]; e != nil {
		return e.decision
	}
	return nil
}

// open adds a page, which gets everything first. It returns nil if there are limit pages.
func (m *mirror) open(limit int) *page {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pages) >= limit {
		return nil
	}
	p := &page{wake: make(chan struct{}, 1), all: true, state: true}
	m.pages[p] = struct{}{}
	p.signal()
	return p
}

func (m *mirror) close(p *page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pages, p)
}

// news is what a page has to get now.
type news struct {
	state   *state
	all     bool
	rows    []*entry // all there are, the oldest first
	changes []change
}

func (m *mirror) take(p *page) news {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := news{all: p.all, changes: p.changes}
	if p.state {
		current := m.state
		n.state = &current
	}
	if p.all {
		n.rows = m.entries()
	}
	p.all, p.state, p.changes = false, false, nil
	return n
}

func (p *page) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
