package jsondiff

import (
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// between are the operations that make of what one memory has what the other has.
//
// Both are put together again, in memory that is used for nothing else, so that nothing of the live
// object is looked at: it may have gone on. What is alike in both is put together once, and so is
// known to be alike by where it is.
func between(before, after *Memory) ([]Operation, error) {
	if before.untyped.IsValid() {
		return compare(before.untyped, after.untyped)
	}
	s := states.Get().(*state)
	defer s.forget()
	defer runtime.KeepAlive(before)
	defer runtime.KeepAlive(after)
	s.put(before, after)
	return compare(reflect.NewAt(before.of, at(s.before, 0)), reflect.NewAt(after.of, at(s.after, 0)))
}

// state is two memories that are put together.
type state struct {
	before, after []uint64 // their words
	// same is, of each piece of the later memory, the one of the earlier that is alike with all
	// that it leads to; none where there is none.
	same      []int
	texts     madeMaps[string]
	resources madeMaps[resource.Quantity]
}

const none = -1

var states = sync.Pool{New: func() any { return &state{} }}

// forget has the state used again, unless it is large.
func (s *state) forget() {
	s.texts.clear()
	s.resources.clear()
	if cap(s.before)+cap(s.after) <= 2*largest {
		states.Put(s)
	}
}

func (s *state) put(before, after *Memory) {
	s.before = append(s.before[:0], before.words...)
	s.after = append(s.after[:0], after.words...)
	for i := 1; i < len(before.pieces); i++ {
		p := &before.pieces[i]
		lead(before, s.before, p.place, at(s.before, p.at))
	}
	s.match(before, after)
	s.texts.put(s, before, after, &before.texts, &after.texts)
	s.resources.put(s, before, after, &before.resources, &after.resources)
	for i := range before.others {
		before.others[i].put(before, s.before)
	}
	for i := range after.others {
		o := &after.others[i]
		s.same[o.in] = none // which the walk will tell
		o.put(after, s.after)
	}
	// What a piece leads to has its place behind it.
	for i := len(after.pieces) - 1; i > 0; i-- {
		p := &after.pieces[i]
		if s.same[i] == none {
			s.same[p.in] = none
			lead(after, s.after, p.place, at(s.after, p.at))
		} else {
			lead(after, s.after, p.place, at(s.before, before.pieces[s.same[i]].at))
		}
	}
}

// lead has a place lead to something.
func lead(m *Memory, words []uint64, from place, to unsafe.Pointer) {
	*(*unsafe.Pointer)(placeIn(m, words, from)) = to
}

func placeIn(m *Memory, words []uint64, in place) unsafe.Pointer {
	return unsafe.Add(at(words, m.pieces[in.in].at), in.offset)
}

func (o *otherValue) put(m *Memory, words []uint64) {
	reflect.NewAt(o.was.Type(), placeIn(m, words, o.place)).Elem().Set(o.was)
}

// match finds the pieces that are where they were, and as they were.
func (s *state) match(before, after *Memory) {
	s.same = s.same[:0]
	next := 0 // in the order of both
	for i := range after.pieces {
		p := &after.pieces[i]
		same := none
		for range before.pieces {
			if next == len(before.pieces) {
				next = 0
			}
			q := &before.pieces[next]
			next++
			if q.live != p.live || q.size != p.size {
				continue
			}
			size := uintptr(p.size)
			if string(bytesOf(at(before.words, q.at), size)) == string(bytesOf(at(after.words, p.at), size)) {
				same = next - 1
			}
			break
		}
		s.same = append(s.same, same)
	}
}

// madeMaps are maps for what is put together. They are used again.
type madeMaps[V comparable] struct {
	maps []map[string]V
	used int
}

// made is a map of what is remembered of one.
func (m *madeMaps[V]) made(of *mapsOf[V], each *mapOf) map[string]V {
	if m.used == len(m.maps) {
		m.maps = append(m.maps, map[string]V{})
	}
	made := m.maps[m.used]
	m.used++
	for k := each.from; k < each.to; k++ {
		made[of.keys[k]] = of.values[k]
	}
	return made
}

// largestMap is how many keys a map may have had that is used again.
const largestMap = 1 << 10

func (m *madeMaps[V]) clear() {
	for i, made := range m.maps[:m.used] {
		if len(made) > largestMap {
			m.maps[i] = map[string]V{}
		}
		clear(made)
	}
	m.used = 0
}

// put puts maps where they belong: one for both, where it is the same and as it was.
func (m *madeMaps[V]) put(s *state, before, after *Memory, was, is *mapsOf[V]) {
	for i := range was.maps {
		if each := &was.maps[i]; each.live != nil {
			*(*map[string]V)(placeIn(before, s.before, each.place)) = m.made(was, each)
		}
	}
	next := 0
	for i := range is.maps {
		each := &is.maps[i]
		if each.live == nil {
			continue
		}
		var same map[string]V
		for range was.maps {
			if next == len(was.maps) {
				next = 0
			}
			earlier := &was.maps[next]
			next++
			if earlier.live == each.live {
				same = *(*map[string]V)(placeIn(before, s.before, earlier.place))
				break
			}
		}
		if same == nil || !is.are(each, same) {
			s.same[each.in] = none
			same = m.made(is, each)
		}
		*(*map[string]V)(placeIn(after, s.after, each.place)) = same
	}
}
