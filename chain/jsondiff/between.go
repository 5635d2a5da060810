package jsondiff

import (
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// between are the operations of one of an object's changes.
//
// Both states are put together again, in memory that is used for nothing else, so that nothing of
// the live object is looked at: it may have gone on. What is alike in both is put together once,
// and so is known to be alike by where it is. The later state is kept, for who asks about the next
// change.
func between(m *Memory, change int) ([]Operation, error) {
	if m.state == nil {
		m.state = states.Get().(*state)
	}
	s := m.state
	if len(s.pieces) == 0 || s.change != change-1 {
		s.clear()
		s.put(m, change-1)
	}
	defer runtime.KeepAlive(m)
	before := s.at[0]
	s.put(m, change)
	return compare(reflect.NewAt(m.of.Elem(), before), reflect.NewAt(m.of.Elem(), s.at[0]))
}

// state is an object as it was after some changes, put together.
type state struct {
	change int
	pieces []piece
	at     []unsafe.Pointer // where the words of each piece are
	// same says, of each piece, whether it is what it was in the state before, with all that it
	// leads to; then is what is put together.
	same      []bool
	then      []piece
	room      room
	texts     madeMaps[string]
	resources madeMaps[resource.Quantity]
	others    []otherValue
}

var states = sync.Pool{New: func() any { return &state{} }}

// forget has the state used again.
func (s *state) forget() {
	s.clear()
	states.Put(s)
}

// clear forgets what is put together. Where pieces were stays, until it is used again.
func (s *state) clear() {
	s.pieces = s.pieces[:0]
	s.room.clear()
	s.texts.clear()
	s.resources.clear()
	clear(s.others)
}

// put makes of the state that there is the one after a change, or any where there is none.
func (s *state) put(m *Memory, change int) {
	s.then = m.pieces.after(change, s.then[:0])
	s.same = s.same[:0]
	for i := range s.then {
		s.same = append(s.same, i < len(s.pieces) && s.pieces[i] == s.then[i])
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
	for i := len(s.then) - 1; i > 0; i-- {
		if !s.same[i] {
			s.same[s.then[i].in] = false
		}
	}
	for i := range s.then {
		if i == len(s.at) {
			s.at = append(s.at, nil)
		}
		if p := &s.then[i]; !s.same[i] && p.live != nil {
			s.at[i] = s.room.of(m.words[p.at:], uintptr(p.size))
		}
	}
	for i := range s.then {
		if p := &s.then[i]; i > 0 && p.live != nil && !s.same[p.in] {
			*(*unsafe.Pointer)(s.place(p.place)) = s.at[i]
		}
	}
	s.texts.put(s)
	s.resources.put(s)
	for i := range s.others {
		if o := &s.others[i]; o.was.IsValid() {
			reflect.NewAt(o.was.Type(), s.place(o.place)).Elem().Set(o.was)
		}
	}
	s.pieces, s.then, s.change = s.then, s.pieces, change
}

func (s *state) place(in place) unsafe.Pointer { return unsafe.Add(s.at[in.in], in.offset) }

// room is memory that stays where it is.
type room struct {
	words []uint64 // taken are those that are used
	taken int
	full  [][]uint64
}

// of is room for a piece, with its words in it.
func (r *room) of(words []uint64, size uintptr) unsafe.Pointer {
	n := int((size + wordSize - 1) / wordSize)
	if r.taken+n > len(r.words) {
		const some = 2048 // enough for all states of a usual pod
		r.full = append(r.full, r.words)
		r.words, r.taken = make([]uint64, max(n, some)), 0
	}
	p := at(r.words, uint32(r.taken))
	r.taken += n
	copy(bytesOf(p, size), bytesOf(at(words, 0), size))
	return p
}

func (r *room) clear() { r.taken, r.full = 0, nil }

// madeMaps are the maps of a state. They are used again.
type madeMaps[V comparable] struct {
	maps, then []mapOf
	at         []map[string]V // by their index
	made       []map[string]V
	used       int
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
	clear(m.at)
	m.maps, m.used = m.maps[:0], 0
}

// take makes the maps after a change that are others than before, and says which pieces aren't the
// same for them.
func (m *madeMaps[V]) take(s *state, of *mapsOf[V], change int) {
	m.then = of.maps.after(change, m.then[:0])
	for i := range m.then {
		each := &m.then[i]
		if i == len(m.at) {
			m.at = append(m.at, nil)
		}
		if i < len(m.maps) && m.maps[i] == *each {
			continue
		}
		s.same[each.in] = false
		if each.live != nil {
			m.at[i] = m.make(of, each)
		}
	}
	m.maps, m.then = m.then, m.maps
}

// put puts the maps where they belong.
func (m *madeMaps[V]) put(s *state) {
	for i := range m.maps {
		if each := &m.maps[i]; each.live != nil && !s.same[each.in] {
			*(*map[string]V)(s.place(each.place)) = m.at[i]
		}
	}
}

// make makes a map of what is remembered of one.
func (m *madeMaps[V]) make(of *mapsOf[V], each *mapOf) map[string]V {
	if m.used == len(m.made) {
		m.made = append(m.made, map[string]V{})
	}
	made := m.made[m.used]
	m.used++
	for k := each.from; k < each.to; k++ {
		made[of.keys[k]] = of.values[k]
	}
	return made
}
