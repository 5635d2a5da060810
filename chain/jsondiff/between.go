package jsondiff

import (
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// between is the patch of one of an object's changes.
//
// Both states are put together again, in memory that is used for nothing else, so that nothing of
// the live object is looked at: it may have gone on. What is alike in both is put together once,
// and so is known to be alike by where it is. The later state is kept, for who asks about the next
// change.
func between(m *Memory, change int) (Patch, error) {
	if m.state == nil {
		m.state = putTogether.Get().(*state)
	}
	s := m.state
	if len(s.pieces.now) == 0 || s.change >= change {
		s.begin(m)
	}
	for s.change < change-1 {
		s.next(m)
	}
	defer runtime.KeepAlive(m)
	before := s.at[0]
	s.next(m)
	of := m.pieces.now[0].shape
	return compare(of, reflect.NewAt(of.t, before).Elem(), reflect.NewAt(of.t, s.at[0]).Elem())
}

// state is an object as it was after some changes, put together.
type state struct {
	change int
	pieces states[piece]
	at     []unsafe.Pointer // where the words of each piece are
	// other says, of each piece, whether it isn't what it was in the state before, with all that it
	// leads to.
	other     []bool
	room      room
	texts     madeMaps[string]
	resources madeMaps[resource.Quantity]
	others    states[otherValue]
}

var putTogether = sync.Pool{New: func() any { return &state{} }}

// forget has the state used again.
func (s *state) forget() {
	s.clear()
	putTogether.Put(s)
}

// clear forgets what is put together.
func (s *state) clear() {
	s.pieces.clear()
	clear(s.at)
	s.room.clear()
	s.texts.clear()
	s.resources.clear()
	s.others.clear()
}

// begin puts together what there was in the beginning.
func (s *state) begin(m *Memory) {
	s.clear()
	s.change = 0
	s.pieces.begin(&m.pieces)
	s.texts.begin(&m.texts)
	s.resources.begin(&m.resources)
	s.others.begin(&m.others)
	s.grow()
	for i := range s.other {
		s.other[i] = true
	}
	s.lead(m)
}

// next makes of the state the one after the next change.
func (s *state) next(m *Memory) {
	s.change++
	became := s.pieces.next(&m.pieces, s.change)
	s.grow()
	clear(s.other)
	for i := range became {
		if each := &became[i]; s.pieces.now[each.index].live != nil {
			s.differs(each.index)
		}
	}
	s.texts.next(s, &m.texts)
	s.resources.next(s, &m.resources)
	s.others.next(&m.others, s.change)
	for i := range s.others.now {
		if o := &s.others.now[i]; o.was.IsValid() {
			s.differs(int(o.in)) // or not, which the walk will tell
		}
	}
	s.lead(m)
}

// grow makes room for all pieces.
func (s *state) grow() {
	if n := len(s.pieces.now) - len(s.at); n > 0 {
		s.at, s.other = append(s.at, make([]unsafe.Pointer, n)...), append(s.other, make([]bool, n)...)
	}
}

// differs says that a piece isn't what it was, nor what leads to it.
func (s *state) differs(piece int) {
	for !s.other[piece] {
		s.other[piece] = true
		piece = int(s.pieces.now[piece].in)
	}
}

// lead puts together the pieces that differ, and has them lead to the others.
func (s *state) lead(m *Memory) {
	for i := range s.pieces.now {
		p := &s.pieces.now[i]
		if p.live == nil {
			continue
		}
		if s.other[i] {
			s.at[i] = s.room.of(m.words[p.at:], uintptr(p.size))
		}
		// A piece that is pointed to comes behind the one that it is pointed to from.
		if i > 0 && s.other[p.in] {
			*(*unsafe.Pointer)(s.place(p.place)) = s.at[i]
		}
	}
	s.texts.put(s)
	s.resources.put(s)
	for i := range s.others.now {
		if o := &s.others.now[i]; o.was.IsValid() {
			reflect.NewAt(o.was.Type(), s.place(o.place)).Elem().Set(o.was)
		}
	}
}

func (s *state) place(in place) unsafe.Pointer { return unsafe.Add(s.at[in.in], in.offset) }

// room is memory that stays where it is, and is used again.
type room struct {
	blocks    [][]uint64
	in, taken int // the block that is used, and how many words of it are
}

// block is how many words a block has at least, and a memory at first: enough for all states of a
// small pod.
const block = 2048

// of is room for a piece, with its words in it.
func (r *room) of(words []uint64, size uintptr) unsafe.Pointer {
	n := int((size + wordSize - 1) / wordSize)
	for r.in < len(r.blocks) && r.taken+n > len(r.blocks[r.in]) {
		r.in, r.taken = r.in+1, 0
	}
	if r.in == len(r.blocks) {
		r.blocks = append(r.blocks, make([]uint64, max(n, block)))
	}
	p := at(r.blocks[r.in], uint32(r.taken))
	r.taken += n
	copy(bytesOf(p, size), bytesOf(at(words, 0), size))
	return p
}

// clear has the room used again, as much of it as a memory may have.
func (r *room) clear() {
	r.in, r.taken = 0, 0
	kept := 0
	for i, words := range r.blocks {
		if kept += len(words) * int(wordSize); kept > largest {
			clear(r.blocks[i:])
			r.blocks = r.blocks[:i]
			break
		}
	}
}

// madeMaps are the maps of a state. They are used again.
type madeMaps[V comparable] struct {
	maps states[mapOf]
	at   []map[string]V // by their index
	made []map[string]V
	used int
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
	m.maps.clear()
	m.at, m.used = m.at[:0], 0
}

// begin makes the maps that there were in the beginning.
func (m *madeMaps[V]) begin(of *mapsOf[V]) {
	m.maps.begin(&of.maps)
	for i := range m.maps.now {
		m.at = append(m.at, nil)
		if each := &m.maps.now[i]; each.live != nil {
			m.at[i] = m.make(of, each)
		}
	}
}

// next makes the maps that are others after the state's change, and says so of the pieces that they
// are in.
func (m *madeMaps[V]) next(s *state, of *mapsOf[V]) {
	became := m.maps.next(&of.maps, s.change)
	for len(m.at) < len(m.maps.now) {
		m.at = append(m.at, nil)
	}
	for i := range became {
		index := became[i].index
		if each := &m.maps.now[index]; each.live != nil {
			s.differs(int(each.in))
			m.at[index] = m.make(of, each)
		}
	}
}

// put puts the maps where they belong.
func (m *madeMaps[V]) put(s *state) {
	for i := range m.maps.now {
		if each := &m.maps.now[i]; each.live != nil && s.other[each.in] {
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
