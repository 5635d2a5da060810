package jsondiff

import (
	"reflect"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// between are the operations of one of an object's changes.
//
// Both states are put together again, in memory that is used for nothing else, so that nothing of
// the live object is looked at: it may have gone on. What is alike in both is put together once,
// and so is known to be alike by where it is.
func between(m *Memory, change int) ([]Operation, error) {
	s := states.Get().(*state)
	defer s.forget()
	defer runtime.KeepAlive(m)
	s.put(m, change)
	now := at(s.after, s.is[0].at)
	if s.same[0] {
		now = at(s.before, s.is[0].at)
	}
	return compare(reflect.NewAt(m.of, at(s.before, s.was[0].at)), reflect.NewAt(m.of, now))
}

// state are two states of an object that are put together.
type state struct {
	was, is       []piece
	before, after []uint64 // their words
	// same says, of each piece, whether it is alike in both, with all that it leads to.
	same      []bool
	texts     madeMaps[string]
	resources madeMaps[resource.Quantity]
	others    []otherValue
}

var states = sync.Pool{New: func() any { return &state{} }}

// forget has the state used again, unless it is large. Where pieces and maps were stays in it,
// which is no more than of what has been done last.
func (s *state) forget() {
	clear(s.others)
	s.texts.clear()
	s.resources.clear()
	if (cap(s.before)+cap(s.after))*int(wordSize) <= 2*largest {
		states.Put(s)
	}
}

func (s *state) put(m *Memory, change int) {
	s.was = m.pieces.after(change-1, s.was[:0])
	s.is = m.pieces.after(change, s.is[:0])
	s.before = append(s.before[:0], m.words...)
	s.after = slices.Grow(s.after[:0], len(m.words))[:len(m.words)]
	s.same = s.same[:0]
	for i := range s.is {
		s.same = append(s.same, s.is[i] == s.was[i])
	}
	s.texts.take(s, &m.texts, change)
	s.resources.take(s, &m.resources, change)
	s.others = m.others.after(change, s.others[:0])
	for i := range s.others {
		if o := &s.others[i]; o.was.IsValid() {
			s.same[o.in] = false // which the walk will tell
		}
	}
	// What a piece leads to comes behind it.
	for i := len(s.is) - 1; i > 0; i-- {
		if !s.same[i] {
			s.same[s.is[i].in] = false
		}
	}
	for i := range s.is {
		if p := &s.is[i]; !s.same[i] {
			size := uintptr(p.size)
			copy(bytesOf(at(s.after, p.at), size), bytesOf(at(m.words, p.at), size))
		}
	}
	for i := range s.is {
		if p := &s.was[i]; i > 0 && p.live != nil {
			*(*unsafe.Pointer)(s.earlier(p.place)) = at(s.before, p.at)
		}
		if p := &s.is[i]; i > 0 && p.live != nil && !s.same[p.in] {
			to := s.after
			if s.same[i] {
				to = s.before
			}
			*(*unsafe.Pointer)(s.later(p.place)) = at(to, p.at)
		}
	}
	s.texts.put(s)
	s.resources.put(s)
	for i := range s.others {
		if o := &s.others[i]; o.was.IsValid() {
			o.put(s.later(o.place))
		}
	}
	s.others = m.others.after(change-1, s.others[:0])
	for i := range s.others {
		if o := &s.others[i]; o.was.IsValid() {
			o.put(s.earlier(o.place))
		}
	}
}

// earlier is a place in the earlier state.
func (s *state) earlier(in place) unsafe.Pointer {
	return unsafe.Add(at(s.before, s.was[in.in].at), in.offset)
}

// later is a place in the later state, in a piece that isn't the same.
func (s *state) later(in place) unsafe.Pointer {
	return unsafe.Add(at(s.after, s.is[in.in].at), in.offset)
}

func (o *otherValue) put(p unsafe.Pointer) { reflect.NewAt(o.was.Type(), p).Elem().Set(o.was) }

// madeMaps are maps for what is put together. They are used again.
type madeMaps[V comparable] struct {
	of      *mapsOf[V]
	was, is []mapOf
	made    []map[string]V
	used    int
}

// largestMap is how many keys a map may have had that is used again.
const largestMap = 1 << 10

func (m *madeMaps[V]) clear() {
	for i, made := range m.made[:m.used] {
		if len(made) > largestMap {
			m.made[i] = map[string]V{}
		}
		clear(made)
	}
	m.of, m.used = nil, 0
}

// take takes the maps of two states, and says which pieces aren't the same for them.
func (m *madeMaps[V]) take(s *state, of *mapsOf[V], change int) {
	m.of, m.was, m.is = of, of.maps.after(change-1, m.was[:0]), of.maps.after(change, m.is[:0])
	for i := range m.is {
		if m.is[i] != m.was[i] {
			s.same[m.is[i].in] = false
		}
	}
}

// put puts the maps where they belong: one for both, where it is the same.
func (m *madeMaps[V]) put(s *state) {
	for i := range m.is {
		var made map[string]V
		if was := &m.was[i]; was.live != nil {
			made = m.make(was)
			*(*map[string]V)(s.earlier(was.place)) = made
		}
		if is := &m.is[i]; is.live != nil && !s.same[is.in] {
			if *is != m.was[i] {
				made = m.make(is)
			}
			*(*map[string]V)(s.later(is.place)) = made
		}
	}
}

// make makes a map of what is remembered of one.
func (m *madeMaps[V]) make(each *mapOf) map[string]V {
	if m.used == len(m.made) {
		m.made = append(m.made, map[string]V{})
	}
	made := m.made[m.used]
	m.used++
	for k := each.from; k < each.to; k++ {
		made[m.of.keys[k]] = m.of.values[k]
	}
	return made
}
