package jsondiff

import (
	"reflect"
	"unsafe"
)

// following is what Memory.follow needs while it looks at an object.
type following struct {
	// changing says that something has changed, and left how many more pieces may.
	changing bool
	left     int
	// children are those of the piece that is remembered again, without those that have been found.
	// They are at the end of siblings.
	children, siblings []int
}

// mostAgain is how many pieces are remembered again one by one before all of the object is
// remembered anew, so that what a change takes grows no faster than the object.
const mostAgain = 64

// follow remembers what an object is now, and tells whether that may be something else than it was.
// It is quick where it is the same object and hasn't changed.
func (m *Memory) follow(object unsafe.Pointer) (changed bool) {
	m.changing = false
	if root := &m.pieces.now[0]; root.live != object {
		m.changed()
		m.again(0, object, uintptr(root.size))
	}
	// A piece that is pointed to comes behind the one that it is pointed to from.
	for i := range m.pieces.now {
		p := &m.pieces.now[i]
		if size := uintptr(p.size); string(bytesOf(p.live, size)) != string(bytesOf(at(m.words, p.at), size)) {
			m.changed()
			m.again(i, p.live, size)
		}
	}
	switch {
	case m.changing && m.left == 0:
		m.anew()
	case m.changing:
		m.prune()
	}
	m.texts.follow(m, ofTexts)
	m.resources.follow(m, ofQuantities)
	for i, o := range m.others.now {
		if !o.was.IsValid() {
			continue
		}
		live := reflect.NewAt(o.was.Type(), unsafe.Add(m.pieces.now[o.in].live, o.offset)).Elem()
		if !reflect.DeepEqual(live.Interface(), o.was.Interface()) {
			m.changed()
			m.others.set(m.changes, i, otherValue{o.place, m.copy(live)})
		}
	}
	return m.changing
}

// changed says that something has changed.
func (m *Memory) changed() {
	if !m.changing {
		m.changing, m.left = true, mostAgain
		m.changes++
	}
}

// again remembers what a piece is now: another one in its place, or the same that has changed. Of
// what it points to, what is where it was is asked by itself.
func (m *Memory) again(i int, live unsafe.Pointer, size uintptr) {
	if m.left == 0 {
		return // see anew
	}
	m.left--
	p := m.pieces.now[i]
	p.live, p.size, p.at = live, uint32(size), m.copied(live, size)
	m.pieces.set(m.changes, i, p)
	if p.shape.kind == plain {
		return
	}
	in := func(at place) bool { return at.in == uint32(i) }
	m.drop(in)
	rest, from := m.children, len(m.siblings)
	for j := i + 1; j < len(m.pieces.now); j++ {
		if child := &m.pieces.now[j]; child.live != nil && in(child.place) {
			m.siblings = append(m.siblings, j)
		}
	}
	m.children = m.siblings[from:]
	m.pointers(i)
	for _, child := range m.children {
		m.pieces.set(m.changes, child, piece{})
	}
	m.children, m.siblings = rest, m.siblings[:from]
}

// child is the piece that was pointed to from a place, where there was one. Places are asked in
// their order: what was between them isn't any more. A child that came later than the one behind it
// isn't found, which costs no more than to remember it anew.
func (m *Memory) child(at place) (int, bool) {
	for len(m.children) > 0 {
		i := m.children[0]
		offset := m.pieces.now[i].offset
		if offset > at.offset {
			break
		}
		m.children = m.children[1:]
		if offset == at.offset {
			return i, true
		}
		m.pieces.set(m.changes, i, piece{})
	}
	return 0, false
}

// prune drops what was in pieces that aren't any more.
func (m *Memory) prune() {
	gone := func(at place) bool { return m.pieces.now[at.in].live == nil }
	for i := 1; i < len(m.pieces.now); i++ {
		if p := &m.pieces.now[i]; p.live != nil && gone(p.place) {
			m.pieces.set(m.changes, i, piece{})
		}
	}
	m.drop(gone)
}

// anew remembers all that an object is now.
func (m *Memory) anew() {
	root := m.pieces.now[0]
	root.at = m.copied(root.live, uintptr(root.size))
	m.pieces.set(m.changes, 0, root)
	m.pieces.begin(1)
	m.texts.maps.begin(0)
	m.resources.maps.begin(0)
	m.others.begin(0)
	m.pointers(0)
	m.pieces.end(m.changes)
	m.texts.maps.end(m.changes)
	m.resources.maps.end(m.changes)
	m.others.end(m.changes)
}

// drop drops the maps, and the values of other kinds, that are in some places.
func (m *Memory) drop(in func(place) bool) {
	m.texts.drop(m.changes, in)
	m.resources.drop(m.changes, in)
	for i, o := range m.others.now {
		if o.was.IsValid() && in(o.place) {
			m.others.set(m.changes, i, otherValue{})
		}
	}
}
