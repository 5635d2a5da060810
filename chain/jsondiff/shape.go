package jsondiff

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shape is what there is to know of a type: its JSON, and how its values lie in memory. Most of
// what two states of an object consist of is alike, and what a request that comes alone pays for
// being told so is the memory that it touches. So a shape is small, in one place, and nothing of it
// is looked at but what belongs to words that differ.
type shape struct {
	// What Remember needs is in the first bytes.
	kind kind
	// own says that values of the type write their JSON themselves, byField that it is no more than
	// that of their fields, one after the other.
	own, byField bool
	size         uintptr
	// element is what a pointer points to, or what a slice is of.
	element *shape
	// pointing are the parts that may point to something; held is where the pointers are of an
	// opaque value, a quantity, or one of another kind.
	pointing []pointing
	held     []uintptr

	t reflect.Type
	// parts are those of a struct that is more than plain, and partOf says in which of them each of
	// its words is. numbers are, of the parts without a shape, the fields in them.
	parts   []part
	partOf  []uint16
	numbers [][]span
	// fields are those of a struct that are in its JSON, in order; fieldOf says for each word which
	// is the first one that doesn't end before it.
	fields  []field
	fieldOf []uint16
}

// kind is how values of a type are compared and remembered.
type kind uint8

const (
	other kind = iota // by reflection
	plain             // without pointers
	text              // a string
	pointer
	list      // a slice
	structure // by its parts
	texts     // a map of strings to strings
	resources // a ResourceList
	quantity  // a Quantity, by its parts
	opaque    // points to what is never changed in place
)

// part is some words of a struct: a field of it, or of a struct in it, or several plain ones that
// lie side by side.
type part struct {
	shape    *shape // nil for plain ones
	from, to uint32 // in words
}

// pointing is a part that may point to something. Unless it is always looked at it doesn't where
// its first word is nil.
type pointing struct {
	shape  *shape
	offset uint32
	text   bool // as most are
	always bool
}

// span is a field among plain ones. What is between these says nothing.
type span struct{ offset, size uintptr }

// wordSize is how many bytes are compared at a time. Whatever points lies on such words.
const wordSize = unsafe.Sizeof(uintptr(0))

// field is one of a struct that is in its JSON.
type field struct {
	shape        *shape
	offset, size uintptr
	index        int
	// inline says that the fields of the field are the struct's own.
	inline bool
	// omitEmpty and omitZero say when it isn't there.
	omitEmpty, omitZero bool
	name                string
	written             string // the name as it is before a value
	// key is, of a list, what its elements are told apart by; nil where there is no such field.
	key *field
}

// in tells whether the field is there.
func (f *field) in(value reflect.Value) bool {
	if f.omitZero && value.IsZero() {
		return false
	}
	return !f.omitEmpty || !isEmpty(value)
}

// isEmpty tells whether a value is empty, as encoding/json understands it.
func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return value.Len() == 0
	case reflect.Struct:
		return false
	default:
		return value.IsZero()
	}
}

var (
	shapes   sync.Map // by reflect.Type
	building sync.Mutex

	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	// A type may contain itself, so that others see its shape only once all are whole that it
	// needs.
	building.Lock()
	defer building.Unlock()
	b := builder{}
	s := b.shapeOf(t)
	for _, made := range b {
		made.findKeys()
	}
	for t, made := range b {
		shapes.Store(t, made)
	}
	return s
}

// builder has the shapes that are being made.
type builder map[reflect.Type]*shape

func (b builder) shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	if s := b[t]; s != nil {
		return s
	}
	s := newShape(t, kindOf(t))
	s.own = t == reflect.TypeFor[json.Number]() // a text that is written as a number
	b[t] = s
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		for _, form := range []reflect.Type{marshaler, textMarshaler} {
			s.own = s.own || t.Implements(form) || reflect.PointerTo(t).Implements(form)
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		s.element = b.shapeOf(t.Elem())
	case reflect.Struct:
		if s.kind == structure || s.kind == quantity {
			b.addParts(s)
		}
		if !s.own {
			b.addFields(s)
		}
	}
	return s
}

func newShape(t reflect.Type, kind kind) *shape {
	s := &shape{t: t, kind: kind, size: t.Size()}
	if kind == opaque || kind == quantity || kind == other {
		s.held = pointersOf(t, 0, nil)
	}
	return s
}

// pointersOf appends where in a value of a type its pointers are.
func pointersOf(t reflect.Type, offset uintptr, to []uintptr) []uintptr {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			to = pointersOf(t.Field(i).Type, offset+t.Field(i).Offset, to)
		}
	case reflect.Array:
		for i := range t.Len() {
			to = pointersOf(t.Elem(), offset+uintptr(i)*t.Elem().Size(), to)
		}
	case reflect.Interface:
		to = append(to, offset+wordSize) // behind its type
	case reflect.Pointer, reflect.String, reflect.Slice, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		to = append(to, offset)
	}
	return to
}

func kindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return quantity
	case reflect.TypeFor[corev1.ResourceList]():
		return resources
	case reflect.TypeFor[time.Time]():
		return opaque
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Pointer:
		return pointer
	case reflect.Slice:
		return list
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String {
			return texts
		}
		return other
	case reflect.Struct:
		for i := range t.NumField() {
			if kindOf(t.Field(i).Type) != plain {
				return structure
			}
		}
		return plain
	case reflect.Array:
		if kindOf(t.Elem()) == plain {
			return plain
		}
		return other
	case reflect.Interface:
		return other
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return opaque
	}
	return plain
}

// addParts cuts a struct into what points, and what is between.
func (b builder) addParts(s *shape) {
	s.partOf = make([]uint16, s.size/wordSize)
	var numbers []span // since the last part that points
	at := uint32(0)
	until := func(word uint32) {
		if word > at {
			s.parts, s.numbers = append(s.parts, part{nil, at, word}), append(s.numbers, numbers)
			numbers = nil
		}
		at = word
	}
	var visit func(t reflect.Type, offset uintptr)
	visit = func(t reflect.Type, offset uintptr) {
		for i := range t.NumField() {
			f := t.Field(i)
			offset, of := offset+f.Offset, b.shapeOf(f.Type)
			switch {
			case of.kind == plain:
				numbers = append(numbers, span{offset, of.size})
				continue
			case of.kind == structure && (f.IsExported() || f.Anonymous || s.kind == quantity):
				visit(f.Type, offset)
				continue
			case !f.IsExported() && of.kind != text && s.kind != quantity:
				// Whatever it is, it can't be told apart from outside.
				of = newShape(f.Type, opaque)
			}
			until(uint32(offset / wordSize))
			at = uint32((offset + of.size) / wordSize)
			s.parts = append(s.parts, part{of, uint32(offset / wordSize), at})
			s.numbers = append(s.numbers, nil)
		}
	}
	visit(s.t, 0)
	for _, p := range s.parts {
		if p.shape != nil {
			s.pointing = append(s.pointing, pointing{p.shape, p.from * uint32(wordSize), p.shape.kind == text,
				p.shape.kind == quantity || p.shape.kind == opaque || p.shape.t.Kind() == reflect.Array})
		}
	}
	until(uint32(len(s.partOf)))
	for i := range s.parts {
		for word := s.parts[i].from; word < s.parts[i].to; word++ {
			s.partOf[word] = uint16(i)
		}
	}
}

func (b builder) addFields(s *shape) {
	s.byField = true
	for i := range s.t.NumField() {
		f := s.t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && (!f.Anonymous || !isStruct(f.Type)) {
			continue
		}
		if !isName(name) {
			name = ""
		}
		inline := f.Anonymous && name == ""
		if name == "" {
			name = f.Name
		}
		has := func(option string) bool {
			return strings.Contains(","+options+",", ","+option+",")
		}
		of := b.shapeOf(f.Type)
		quoted, _ := json.Marshal(name)
		s.fields = append(s.fields, field{shape: of, offset: f.Offset, size: f.Type.Size(), index: i,
			inline: inline, omitEmpty: has("omitempty"), omitZero: has("omitzero"), name: name,
			written: string(quoted) + ":"})
		s.byField = s.byField && !has("string") && !has("omitzero") && (!inline || of.byField)
	}
	s.byField = s.byField && s.hasNamesOnce(map[string]bool{})
	if s.kind != structure {
		return
	}
	s.fieldOf = make([]uint16, s.size/wordSize)
	k := 0
	for word := range s.fieldOf {
		for k < len(s.fields) && s.fields[k].offset+s.fields[k].size <= uintptr(word)*wordSize {
			k++
		}
		s.fieldOf[word] = uint16(k)
	}
}

// isStruct tells whether a type is a struct, or a pointer to one.
func isStruct(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// isName tells whether encoding/json takes a name from a tag.
func isName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// hasNamesOnce tells whether no two fields of a struct have the same name, nor those of structs in
// it, of which JSON would have one or none.
func (s *shape) hasNamesOnce(names map[string]bool) bool {
	for i := range s.fields {
		f := &s.fields[i]
		switch {
		case f.inline && !f.shape.hasNamesOnce(names), names[f.name]:
			return false
		case !f.inline:
			names[f.name] = true
		}
	}
	return true
}

// findKeys finds the merge keys of the lists among the fields, once those of their elements are
// known.
func (s *shape) findKeys() {
	for i := range s.fields {
		f := &s.fields[i]
		name := s.t.Field(f.index).Tag.Get("patchMergeKey")
		element := f.shape.element
		if element != nil && element.kind == pointer {
			element = element.element
		}
		if name == "" || element == nil {
			continue
		}
		if at := slices.IndexFunc(element.fields, func(f field) bool { return f.name == name }); at >= 0 {
			f.key = &element.fields[at]
		}
	}
}
