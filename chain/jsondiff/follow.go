package jsondiff

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// following is what Memory.follow needs while it looks at an object.
type following struct {
	// changing says that something has changed, and left how much more may; gone that there are
	// pieces that aren't any more.
	changing, gone bool
	left           int
}

// mostAgain is how often a piece is remembered again, or something searched for, before all of the
// object is remembered anew, so that what a change takes grows no faster than what the object is,
// or was at its largest.
const mostAgain = 128

// follow remembers what an object is now, and tells whether that may be something else than it was.
// It is quick where it is the same object and hasn't changed.
func (m *Memory) follow(object unsafe.Pointer) (changed bool) {
	m.changing, m.gone = false, false
	n := len(m.pieces.now)
	if root := &m.pieces.now[0]; root.live != object {
		m.changed()
		m.again(0, object, uintptr(root.size))
	}
	// A piece that is pointed to comes behind the one that it is pointed to from.
	for i := range n {
		p := &m.pieces.now[i]
		if size := uintptr(p.size); string(bytesOf(p.live, size)) != string(bytesOf(at(m.words, p.at), size)) {
			m.changed()
			m.again(i, p.live, size)
		}
	}
	if m.changing && m.left == 0 {
		m.anew()
	} else if m.pointers(n); m.gone { // with what was in them
		m.drop(func(at place) bool { return m.pieces.now[at.in].live == nil })
	}
	m.texts.follow(m, ofTexts)
	m.resources.follow(m, ofQuantities)
	for i, o := range m.others.now {
		if !o.was.IsValid() {
			continue
		}
		live := reflect.NewAt(o.was.Type(), unsafe.Add(m.pieces.now[o.in].live, o.offset)).Elem()
		if !alike(live, o.was) {
			m.changed()
			m.others.set(m.changes, i, otherValue{o.place, m.copy(live)})
		}
	}
	return m.changing
}

// alike tells whether two values of other types are.
func alike(a, b reflect.Value) bool {
	if q, ok := a.Interface().(resource.Quantity); ok {
		// Their numbers may be written in other ways.
		return ofQuantities.alike(q, b.Interface().(resource.Quantity))
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// changed says that something has changed.
func (m *Memory) changed() {
	if !m.changing {
		m.changing, m.left = true, mostAgain
		m.changes++
	}
}

// again remembers what a piece is now: another one in its place, or the same that has changed. What
// it points to by words that are what they were is asked by itself.
func (m *Memory) again(i int, live unsafe.Pointer, size uintptr) {
	if m.left == 0 {
		return // see anew
	}
	m.left--
	p := m.pieces.now[i]
	s, had, was := p.shape, uintptr(p.size), p.at
	p.live, p.size, p.at = live, uint32(size), m.copied(live, size)
	m.pieces.set(m.changes, i, p)
	if s.kind == plain {
		return
	}
	for offset := uintptr(0); offset < size; offset += s.size {
		in, now := place{uint32(i), uint32(offset)}, unsafe.Add(live, offset)
		if offset >= had {
			m.inside(s, now, in)
			continue
		}
		m.differing(s, unsafe.Add(at(m.words, was), offset), now, in)
	}
	if size < had {
		m.drop(func(at place) bool { return at.in == uint32(i) && uintptr(at.offset) >= size })
	}
}

// differing remembers what a value points to now by words that aren't what they were.
func (m *Memory) differing(s *shape, was, now unsafe.Pointer, in place) {
	for at := uintptr(0); ; {
		at = differsAt(was, now, at, s.size)
		switch {
		case at == s.size:
			return
		case s.kind != structure:
			m.replaced(s, now, in)
			return
		}
		part := &s.parts[s.partOf[at/wordSize]]
		if offset := part.from * uint32(wordSize); part.shape != nil {
			m.replaced(part.shape, unsafe.Add(now, offset), place{in.in, in.offset + offset})
		}
		at = uintptr(part.to) * wordSize
	}
}

// replaced remembers what is in a place now.
func (m *Memory) replaced(s *shape, p unsafe.Pointer, in place) {
	if s.kind == text {
		m.text(p)
		return
	}
	if m.left == 0 {
		return // see anew
	}
	m.left-- // it takes a search
	switch s.kind {
	case pointer, list:
		i, ok := m.pieceAt(in)
		if !ok {
			break
		}
		live, n := s.leads(p)
		if size := uintptr(n) * s.element.size; size > 0 {
			// Whether it has changed in place is asked of each piece.
			if was := &m.pieces.now[i]; was.live != live || uintptr(was.size) != size {
				m.again(i, live, size)
			}
			return
		}
		m.empty(i)
	case texts:
		m.texts.drop(m.changes, in.is)
	case resources:
		m.resources.drop(m.changes, in.is)
	case quantity, other:
		m.dropOthers(in.is)
	}
	m.inside(s, p, in)
}

// pieceAt is the piece that was pointed to from a place, where there was one.
func (m *Memory) pieceAt(from place) (int, bool) {
	for i := int(from.in) + 1; i < len(m.pieces.now); i++ {
		if p := &m.pieces.now[i]; p.live != nil && p.place == from {
			return i, true
		}
	}
	return 0, false
}

func (p place) is(other place) bool { return p == other }

// empty says that a piece isn't any more.
func (m *Memory) empty(i int) {
	m.pieces.set(m.changes, i, piece{})
	m.gone = true
}

// anew remembers all that an object is now.
func (m *Memory) anew() {
	root := m.pieces.now[0]
	root.at = m.copied(root.live, uintptr(root.size))
	m.pieces.set(m.changes, 0, root)
	m.pieces.refill(1)
	m.texts.maps.refill(0)
	m.resources.maps.refill(0)
	m.others.refill(0)
	m.pointers(0)
	m.pieces.refilled(m.changes)
	m.texts.maps.refilled(m.changes)
	m.resources.maps.refilled(m.changes)
	m.others.refilled(m.changes)
}

// drop drops what is in some places.
func (m *Memory) drop(in func(place) bool) {
	// A piece that is pointed to comes behind the one that it is pointed to from.
	for i := 1; i < len(m.pieces.now); i++ {
		if p := &m.pieces.now[i]; p.live != nil && in(p.place) {
			m.empty(i)
		}
	}
	m.texts.drop(m.changes, in)
	m.resources.drop(m.changes, in)
	m.dropOthers(in)
}

// dropOthers drops the values of other kinds that are in some places.
func (m *Memory) dropOthers(in func(place) bool) {
	for i, o := range m.others.now {
		if o.was.IsValid() && in(o.place) {
			m.others.set(m.changes, i, otherValue{})
		}
	}
}
