package jsondiff

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Memory is what an object was at a moment, to be told later what has changed. It doesn't change
// itself, so that it may be asked by several at a time.
//
// It isn't a copy of the object. An object is some sixty pieces of memory that point to each other,
// and a request that comes alone pays most for memory that it hasn't touched for a while. So what
// is in them lies side by side here, piece after piece, with where each of them is; and an object
// whose pieces are what they were is unchanged, which takes no more than to compare them in that
// order. Only where somebody wants to know what has changed (Difference) the pieces are made to
// lead to each other again.
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
	// textBytes is how many bytes the texts have that are held.
	textBytes int

	// holders are those who may ask yet.
	holders atomic.Int32
}

// piece is a value that something points to, or the elements of a list.
type piece struct {
	place
	live unsafe.Pointer
	at   uint32 // the first of its words
	size uint32
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
	m.holders.Store(1)
	value := reflect.ValueOf(object)
	if value.Kind() == reflect.Map {
		m.untyped = copyOf(value)
	} else {
		m.of = value.Type().Elem()
		m.piece(shapeOf(m.of), value.UnsafePointer(), 1, place{})
	}
	return m
}

// Forget says that who has the memory won't ask it any more.
func (m *Memory) Forget() {
	if m.holders.Add(-1) > 0 {
		return
	}
	m.clear()
	if cap(m.words) <= largest {
		memories.Put(m)
	}
}

// Since returns what has become of an object, the same one or another of its type, since it was
// remembered: nil where nothing has. And it returns the memory of what it is now, in place of this
// one, which it forgets.
func (m *Memory) Since(object any) (*Difference, *Memory) {
	if !m.changed(object) {
		return nil, m
	}
	now := Remember(object)
	now.holders.Add(1)
	return newDifference(m, now), now
}

// changed tells whether an object may differ from what is remembered. It is quick where it is the
// same one and doesn't.
func (m *Memory) changed(object any) bool {
	now := reflect.ValueOf(object)
	if m.untyped.IsValid() {
		return !reflect.DeepEqual(m.untyped.Interface(), object)
	}
	if m.pieces[0].live != now.UnsafePointer() {
		return true
	}
	for i := range m.pieces {
		p := &m.pieces[i]
		if size := uintptr(p.size); string(bytesOf(p.live, size)) != string(bytesOf(at(m.words, p.at), size)) {
			return true
		}
	}
	if m.texts.changed() || m.resources.changed() {
		return true
	}
	for i := range m.others {
		o := &m.others[i]
		live := reflect.NewAt(o.was.Type(), unsafe.Add(m.pieces[o.in].live, o.offset))
		if !reflect.DeepEqual(live.Elem().Interface(), o.was.Interface()) {
			return true
		}
	}
	return false
}

func (m *Memory) clear() {
	clear(m.pieces)
	clear(m.held)
	clear(m.others)
	m.pieces, m.held, m.others, m.words = m.pieces[:0], m.held[:0], m.others[:0], m.words[:0]
	m.texts.clear()
	m.resources.clear()
	m.untyped, m.textBytes = reflect.Value{}, 0
}

// copies tells whether it has copies of what takes reflection.
func (m *Memory) copies() bool { return m.untyped.IsValid() || len(m.others) > 0 }

// size is how much memory it takes and holds where it has no copies, in bytes, roughly.
func (m *Memory) size() int {
	const entry = 64 // of a map: its key, and a text or a quantity
	return len(m.words)*int(wordSize) + len(m.pieces)*int(unsafe.Sizeof(piece{})) + len(m.held)*int(wordSize) +
		(len(m.texts.keys)+len(m.resources.keys))*entry + m.textBytes
}

func (m *Memory) piece(s *shape, live unsafe.Pointer, n int, from place) {
	first, size := len(m.words), uintptr(n)*s.size
	if size == 0 && len(m.pieces) > 0 {
		m.held = append(m.held, live)
		return
	}
	words := int((size + wordSize - 1) / wordSize)
	m.words = slices.Grow(m.words, words)[:first+words]
	copy(bytesOf(at(m.words, uint32(first)), size), bytesOf(live, size))
	in := uint32(len(m.pieces))
	m.pieces = append(m.pieces, piece{place: from, live: live, at: uint32(first), size: uint32(size)})
	if s.kind == plain {
		return
	}
	for i := range uintptr(n) {
		m.inside(s, unsafe.Add(live, i*s.size), place{in, uint32(i * s.size)})
	}
}

// at is where the words of a piece begin.
func at(words []uint64, first uint32) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(words)), uintptr(first)*wordSize)
}

// inside remembers what a value points to.
func (m *Memory) inside(s *shape, p unsafe.Pointer, in place) {
	switch s.kind {
	case text:
		m.text(p)
	case pointer:
		if to := *(*unsafe.Pointer)(p); to != nil {
			m.piece(s.element, to, 1, in)
		}
	case list:
		// Of any slice, what a slice of bytes has: an address, and a length in elements.
		if has := *(*[]byte)(p); len(has) > 0 {
			m.piece(s.element, unsafe.Pointer(unsafe.SliceData(has)), len(has), in)
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
				m.text(q)
			default:
				m.inside(of.shape, q, place{in.in, in.offset + uint32(of.offset)})
			}
		}
	case texts:
		keys := m.texts.add(p, in, func(text string) string {
			m.textBytes += len(text)
			return text
		})
		m.textBytes += keys
	case resources:
		m.textBytes += m.resources.add(p, in, resource.Quantity.DeepCopy)
	case quantity:
		if q := (*resource.Quantity)(p); *q != q.DeepCopy() { // it points to a number
			m.others = append(m.others, otherValue{place: in, was: copyOf(reflect.NewAt(s.t, p).Elem())})
		}
		m.hold(s, p)
	case opaque:
		m.hold(s, p)
	case other:
		m.others = append(m.others, otherValue{place: in, was: copyOf(reflect.NewAt(s.t, p).Elem())})
		m.hold(s, p)
	}
}

// text holds a text.
func (m *Memory) text(p unsafe.Pointer) {
	text := *(*string)(p)
	m.held = append(m.held, unsafe.Pointer(unsafe.StringData(text)))
	m.textBytes += len(text)
}

// hold holds all that a value points to.
func (m *Memory) hold(s *shape, p unsafe.Pointer) {
	for _, offset := range s.held {
		m.held = append(m.held, *(*unsafe.Pointer)(unsafe.Add(p, offset)))
	}
}
