package jsondiff

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Memory is what an object was at a moment, and what it has become since, each time that somebody
// asked. What was different is told later, and by several at a time if they like.
//
// It isn't a copy of the object. An object is some sixty pieces of memory that point to each other,
// and a request that comes alone pays most for memory that it hasn't touched for a while. So what
// is in them lies side by side here, piece after piece, with where each of them is; and an object
// whose pieces are what they were is unchanged, which takes no more than to compare them in that
// order. Of one that has changed only those pieces are remembered once more that are others now.
// Only where somebody wants to know what has changed (Difference) the pieces are made to lead to
// each other again.
//
// What a piece points to is held for as long as it is remembered, lest something else be put in its
// place that looks the same.
type Memory struct {
	mu sync.Mutex // for who asks what was different while the object goes on
	of reflect.Type
	// changes is how often the object has changed.
	changes int
	pieces  kept[piece] // the first is the object
	words   []uint64    // what is in them, and was
	held    []unsafe.Pointer
	texts   mapsOf[string]
	// resources are alike where they are written alike.
	resources mapsOf[resource.Quantity]
	others    kept[otherValue]
	// untyped is a copy of an object without a type.
	untyped reflect.Value
	// textBytes is how many bytes the texts have that are held, and the copies. A text that takes
	// another's place counts, too, and all do where all is remembered anew. told is how large the
	// memory was at the last change, in bytes.
	textBytes, told int

	following
	// state is the one that was put together last; nil where none was.
	state *state

	// holders are those who may ask yet.
	holders atomic.Int32
}

// piece is a value that something points to, or the elements of a list.
type piece struct {
	place
	shape *shape // of the value, or of an element
	live  unsafe.Pointer
	at    uint32 // the first of its words
	size  uint32
}

// place is where something is pointed to: in which piece, and how far from its beginning.
type place struct{ in, offset uint32 }

// otherValue is a value of a type that takes reflection.
type otherValue struct {
	place
	was reflect.Value
}

var memories = sync.Pool{New: func() any { return &Memory{words: make([]uint64, 0, block)} }}

// largest is how large a memory may be that is used again, in bytes.
const largest = 256 << 10

// Remember remembers what object is: a pointer to a struct, or a map.
func Remember(object any) *Memory {
	m := memories.Get().(*Memory)
	m.holders.Store(1)
	value := reflect.ValueOf(object)
	m.of = value.Type()
	if value.Kind() == reflect.Map {
		m.untyped = copyOf(value)
	} else {
		m.piece(shapeOf(m.of.Elem()), value.UnsafePointer(), 1, place{})
		m.pointers(0)
	}
	return m
}

// Since returns what has become of an object, the same one or another of its type, since it was
// remembered, or since Since was called last: nil where nothing has. Of an object of another type
// the difference is an error.
func (m *Memory) Since(object any) *Difference {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := reflect.ValueOf(object)
	if now.Type() != m.of || now.Kind() == reflect.Pointer && now.IsNil() {
		return known(func() (Patch, error) {
			return nil, fmt.Errorf("there is a %v where a %v was", now.Type(), m.of)
		})
	}
	if m.untyped.IsValid() {
		if reflect.DeepEqual(m.untyped.Interface(), object) {
			return nil
		}
		before := m.untyped
		m.untyped = copyOf(now)
		return known(func() (Patch, error) { return compare(shapeOf(m.of), before, m.untyped) })
	}
	if !m.follow(now.UnsafePointer()) {
		return nil
	}
	d := &Difference{}
	if len(m.others.now) > 0 {
		// Copies may be large. What they differ by is what is kept.
		d = known(func() (Patch, error) { return between(m, m.changes) })
	} else {
		d.memory, d.change = m, m.changes
		m.holders.Add(1)
	}
	if m.holders.Load() > 1 {
		size := m.size()
		d.size, m.told = size-m.told, size
	}
	return d
}

// Forget says that who has the memory won't ask it any more.
func (m *Memory) Forget() {
	if m.holders.Add(-1) > 0 {
		return
	}
	if m.size() > largest {
		return // and what was put together of it
	}
	if m.state != nil {
		m.state.forget()
		m.state = nil
	}
	m.clear()
	memories.Put(m)
}

func (m *Memory) clear() {
	m.changes, m.textBytes, m.told, m.untyped = 0, 0, 0, reflect.Value{}
	m.pieces.clear()
	m.words = m.words[:0]
	clear(m.held)
	m.held = m.held[:0]
	m.texts.clear()
	m.resources.clear()
	m.others.clear()
}

// size is how much memory it takes and holds where it has no copies, in bytes, roughly.
func (m *Memory) size() int {
	pieces := len(m.pieces.now) + 3*len(m.pieces.log)
	return (len(m.words)+len(m.held))*int(wordSize) + pieces*int(unsafe.Sizeof(piece{})) +
		m.texts.size() + m.resources.size() + m.textBytes
}

// piece remembers a value that something points to, or the elements of a list, but not yet what
// these point to.
func (m *Memory) piece(s *shape, live unsafe.Pointer, n int, from place) {
	size := uintptr(n) * s.size
	if size == 0 && len(m.pieces.now) > 0 {
		m.held = append(m.held, live)
		return
	}
	m.pieces.add(m.changes, piece{place: from, shape: s, live: live, at: m.copied(live, size), size: uint32(size)})
}

// copied copies what is in a piece, and returns the first of its words.
func (m *Memory) copied(live unsafe.Pointer, size uintptr) uint32 {
	first, words := len(m.words), int((size+wordSize-1)/wordSize)
	m.words = slices.Grow(m.words, words)[:first+words]
	copy(bytesOf(at(m.words, uint32(first)), size), bytesOf(live, size))
	return uint32(first)
}

// at is where the words of a piece begin.
func at(words []uint64, first uint32) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(words)), uintptr(first)*wordSize)
}

// pointers remembers what the pieces from an index on point to, which are pieces behind them: so
// none comes before the one that it is pointed to from, and it takes no deeper a stack for an
// object that is deep.
func (m *Memory) pointers(from int) {
	for i := from; i < m.pieces.next; i++ {
		p := m.pieces.now[i]
		if p.live == nil || p.shape.kind == plain {
			continue
		}
		for offset := uint32(0); offset < p.size; offset += uint32(p.shape.size) {
			m.inside(p.shape, unsafe.Add(p.live, offset), place{uint32(i), offset})
		}
	}
}

// inside remembers what a value points to.
func (m *Memory) inside(s *shape, p unsafe.Pointer, in place) {
	switch s.kind {
	case text:
		m.text(p)
	case pointer, list:
		if to, n := s.leads(p); n > 0 {
			m.piece(s.element, to, n, in)
		} else {
			m.held = append(m.held, to)
		}
	case structure:
		for i := range s.pointing {
			of := &s.pointing[i]
			q := unsafe.Add(p, of.offset)
			switch { // the first word may be a number, and is not to be taken for a pointer
			case *(*uintptr)(q) == 0 && !of.always:
			case of.text:
				m.text(q)
			default:
				m.inside(of.shape, q, place{in.in, in.offset + of.offset})
			}
		}
	case texts:
		m.texts.add(m.changes, p, in, ofTexts)
	case resources:
		m.resources.add(m.changes, p, in, ofQuantities)
	case quantity:
		if q := (*resource.Quantity)(p); *q != q.DeepCopy() { // it points to a number
			m.other(s, p, in)
		}
		m.hold(s, p)
	case opaque:
		m.hold(s, p)
	case other:
		m.other(s, p, in)
		m.hold(s, p)
	}
}

// leads is where a pointer or a list leads to, and to how many values.
func (s *shape) leads(p unsafe.Pointer) (to unsafe.Pointer, n int) {
	if to = *(*unsafe.Pointer)(p); s.kind == list {
		// Of any slice, what a slice of bytes has: an address, and a length in elements.
		return to, len(*(*[]byte)(p))
	}
	if to != nil {
		n = 1
	}
	return to, n
}

// text holds a text.
func (m *Memory) text(p unsafe.Pointer) {
	text := *(*string)(p)
	m.held = append(m.held, unsafe.Pointer(unsafe.StringData(text)))
	m.textBytes += len(text)
}

// other copies a value.
func (m *Memory) other(s *shape, p unsafe.Pointer, in place) {
	m.others.add(m.changes, otherValue{place: in, was: m.copy(reflect.NewAt(s.t, p).Elem())})
}

func (m *Memory) copy(value reflect.Value) reflect.Value {
	m.textBytes += bytesIn(value)
	return copyOf(value)
}

// hold holds all that a value points to.
func (m *Memory) hold(s *shape, p unsafe.Pointer) {
	for _, offset := range s.held {
		m.held = append(m.held, *(*unsafe.Pointer)(unsafe.Add(p, offset)))
	}
}
