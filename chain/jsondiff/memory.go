package jsondiff

import (
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Memory is what an object was at a moment, to be told later what has changed.
//
// It isn't a copy of the object. An object is some sixty pieces of memory that point to each other,
// and a request that comes alone pays most for memory that it hasn't touched for a while. So what
// is in them lies side by side here, piece after piece, with where each of them is; and an object
// whose pieces are what they were is unchanged, which takes no more than to compare them in that
// order. Only where one isn't, what is remembered of the pieces that changed, and of those that
// lead to them, is put together, and both states are walked over.
//
// What a piece points to is held for as long as it is remembered, lest something else be put in its
// place that looks the same.
type Memory struct {
	of     reflect.Type // what the object points to
	pieces []piece      // the first is the object
	words  []uint64     // what was in them
	held   []unsafe.Pointer
	texts  mapsOf[string]
	// resources are compared as they are written, so that those of the same amount may differ: the
	// walk tells.
	resources mapsOf[resource.Quantity]
	others    []otherValue
	// untyped is a copy of an object without a type.
	untyped reflect.Value
}

// piece is a value that something points to, or the elements of a list.
type piece struct {
	place
	live unsafe.Pointer
	at   uint32 // the first of its words
	size uint32
	// changed says that it, or something that it leads to, isn't what it was.
	changed bool
}

// place is where something is pointed to: in which piece, and how far from its beginning.
type place struct{ in, offset uint32 }

// otherValue is a value of a type that takes reflection.
type otherValue struct {
	place
	was reflect.Value
}

var memories = sync.Pool{New: func() any { return &Memory{} }}

// largest is how many words a memory may have room for that is used again.
const largest = 1 << 15

// Remember remembers what object is: a pointer to a struct, or a map.
func Remember(object any) *Memory {
	m := memories.Get().(*Memory)
	value := reflect.ValueOf(object)
	if value.Kind() == reflect.Map {
		m.untyped = copyOf(value)
	} else {
		m.of = value.Type().Elem()
		m.piece(shapeOf(m.of), value.UnsafePointer(), 1, place{})
	}
	return m
}

// Forget says that nobody will ask any more.
func (m *Memory) Forget() {
	m.clear()
	if cap(m.words) <= largest {
		memories.Put(m)
	}
}

// Changed tells whether an object, the same one or another of its type, may differ from what is
// remembered. It is quick where the same one doesn't.
func (m *Memory) Changed(object any) bool {
	now := reflect.ValueOf(object)
	if m.untyped.IsValid() {
		return !reflect.DeepEqual(m.untyped.Interface(), object)
	}
	root := &m.pieces[0]
	if root.live != now.UnsafePointer() {
		root.changed = true
	}
	m.look()
	return root.changed
}

// Changes are what makes an object of what is remembered, which it forgets. It may be the same
// object or another of its type, but is the one that Changed was asked of. An error is that of
// writing a value as JSON.
func (m *Memory) Changes(object any) ([]Operation, error) {
	defer m.Forget()
	if m.untyped.IsValid() {
		return compare(m.untyped, reflect.ValueOf(object))
	}
	root := &m.pieces[0]
	if !root.changed && !m.Changed(object) {
		return nil, nil
	}
	m.restore()
	return compare(reflect.NewAt(m.of, m.wordsAt(root.at)), reflect.ValueOf(object))
}

func (m *Memory) clear() {
	clear(m.pieces)
	clear(m.held)
	clear(m.others)
	m.pieces, m.held, m.others, m.words = m.pieces[:0], m.held[:0], m.others[:0], m.words[:0]
	m.texts.clear()
	m.resources.clear()
	m.untyped = reflect.Value{}
}

func (m *Memory) piece(s *shape, live unsafe.Pointer, n int, from place) {
	at, size := len(m.words), uintptr(n)*s.size
	if size == 0 && len(m.pieces) > 0 {
		m.held = append(m.held, live)
		return
	}
	words := int((size + wordSize - 1) / wordSize)
	m.words = slices.Grow(m.words, words)[:at+words]
	copy(bytesOf(m.wordsAt(uint32(at)), size), bytesOf(live, size))
	in := uint32(len(m.pieces))
	m.pieces = append(m.pieces, piece{place: from, live: live, at: uint32(at), size: uint32(size)})
	if s.kind == plain {
		return
	}
	for i := range uintptr(n) {
		m.inside(s, unsafe.Add(live, i*s.size), place{in, uint32(i * s.size)})
	}
}

// wordsAt is where the words of a piece begin.
func (m *Memory) wordsAt(at uint32) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.words)), uintptr(at)*wordSize)
}

// inside remembers what a value points to.
func (m *Memory) inside(s *shape, p unsafe.Pointer, at place) {
	switch s.kind {
	case text:
		m.held = append(m.held, *(*unsafe.Pointer)(p))
	case pointer:
		if to := *(*unsafe.Pointer)(p); to != nil {
			m.piece(s.element, to, 1, at)
		}
	case list:
		// Of any slice, what a slice of bytes has: an address, and a length in elements.
		if has := *(*[]byte)(p); len(has) > 0 {
			m.piece(s.element, unsafe.Pointer(unsafe.SliceData(has)), len(has), at)
		} else {
			m.held = append(m.held, *(*unsafe.Pointer)(p))
		}
	case structure:
		for i := range s.pointing {
			of := &s.pointing[i]
			q := unsafe.Add(p, of.offset)
			switch { // the first word may be a number, and is not to be taken for a pointer
			case *(*uintptr)(q) == 0 && !of.always:
			case of.shape.kind == text: // as most are
				m.held = append(m.held, *(*unsafe.Pointer)(q))
			default:
				m.inside(of.shape, q, place{at.in, at.offset + uint32(of.offset)})
			}
		}
	case texts:
		m.texts.add(p, at, func(text string) string { return text })
	case resources:
		m.resources.add(p, at, resource.Quantity.DeepCopy)
	case quantity:
		if q := (*resource.Quantity)(p); *q != q.DeepCopy() { // it points to a number
			m.others = append(m.others, otherValue{place: at, was: copyOf(reflect.NewAt(s.t, p).Elem())})
		}
		m.hold(s, p)
	case opaque:
		m.hold(s, p)
	case other:
		m.others = append(m.others, otherValue{place: at, was: copyOf(reflect.NewAt(s.t, p).Elem())})
		m.hold(s, p)
	}
}

// hold holds all that a value points to.
func (m *Memory) hold(s *shape, p unsafe.Pointer) {
	for _, offset := range s.held {
		m.held = append(m.held, *(*unsafe.Pointer)(unsafe.Add(p, offset)))
	}
}

// look finds the pieces that changed.
func (m *Memory) look() {
	for i := range m.pieces {
		p := &m.pieces[i]
		if size := uintptr(p.size); string(bytesOf(p.live, size)) != string(bytesOf(m.wordsAt(p.at), size)) {
			m.mark(uint32(i))
		}
	}
	m.texts.look(m)
	m.resources.look(m)
	for i := range m.others {
		o := &m.others[i]
		live := reflect.NewAt(o.was.Type(), unsafe.Add(m.pieces[o.in].live, o.offset))
		if !reflect.DeepEqual(live.Elem().Interface(), o.was.Interface()) {
			m.mark(o.in)
		}
	}
}

// mark says that a piece has changed, and with it those that lead to it.
func (m *Memory) mark(i uint32) {
	m.pieces[0].changed = true
	for !m.pieces[i].changed {
		m.pieces[i].changed = true
		i = m.pieces[i].in
	}
}

// restore makes what is remembered of the pieces that changed pieces themselves, which lead to each
// other. Of those that didn't change it leads to the live ones. Nothing of it outlives the memory.
func (m *Memory) restore() {
	for i := 1; i < len(m.pieces); i++ {
		if p := &m.pieces[i]; p.changed {
			*(*unsafe.Pointer)(m.was(p.place)) = m.wordsAt(p.at)
		}
	}
	m.texts.restore(m)
	m.resources.restore(m)
	for _, o := range m.others {
		// Where the piece has changed this may be what the object doesn't have any more, and not
		// as it was, either.
		if m.pieces[o.in].changed {
			reflect.NewAt(o.was.Type(), m.was(o.place)).Elem().Set(o.was)
		}
	}
}

// was is a place in what is remembered.
func (m *Memory) was(at place) unsafe.Pointer {
	return unsafe.Add(m.wordsAt(m.pieces[at.in].at), at.offset)
}
