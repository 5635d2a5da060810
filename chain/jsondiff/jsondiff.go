// Package jsondiff tells what has changed between two states of an object, as the JSON patch
// (RFC 6902) that makes the second of the first.
//
// It walks over the Go values, typed or not, and writes JSON only of what differs: two pods that
// are alike are told so in a few microseconds, where turning them into JSON first takes a hundred.
// What it says is what the difference of their JSON is: a field has the name of its tag, one that
// is empty and omitted isn't there, and a type that has a form of its own in JSON, as a quantity,
// is compared in it.
//
// Elements of lists are told apart by their merge key where the API gives the list one
// (patchMergeKey), by the name that an object without a type has, and else by what they are, so
// that a container that was put in front of others is one addition.
package jsondiff

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Operation is one operation of a JSON patch.
type Operation struct {
	// Op is add, remove or replace.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// Value is what is added, or what replaces what was there; nil where something is removed.
	Value json.RawMessage `json:"value,omitempty"`
}

const (
	add     = "add"
	remove  = "remove"
	replace = "replace"
)

// Of returns the operations, none where the two are alike. Both must be pointers to the same type,
// or the same kind of map; an error is that of writing a value as JSON.
func Of(before, after any) ([]Operation, error) {
	was, now := reflect.ValueOf(before), reflect.ValueOf(after)
	if !was.IsValid() || !now.IsValid() {
		return nil, nil
	}
	patch, err := compare(shapeOf(was.Type()), was, now)
	return patch.Operations(), err
}

// compare compares two values, the first of which is of the shape.
func compare(s *shape, was, now reflect.Value) (Patch, error) {
	w := walks.Get().(*walk)
	defer walks.Put(w)
	w.begin()
	w.values(s, was, now, nil)
	return w.end()
}

// walk is one comparison. What it has allocated is used again by another.
type walk struct {
	// path is the pointer to where the walk is.
	path []byte
	err  error
	// only says that whether there is a difference is all that is asked for, differs that there is.
	only, differs bool
	// written has the path and the value of each operation, one after the other; ends says where
	// they end.
	written []byte
	ends    []ends
	// depth is how deep in a value it is that is being written.
	depth int
}

// ends are where what is written of an operation ends.
type ends struct {
	op          string
	path, value int
}

var walks = sync.Pool{New: func() any { return &walk{} }}

func (w *walk) begin() {
	w.path, w.ends, w.written, w.err = w.path[:0], w.ends[:0], w.written[:0], nil
	w.differs, w.depth = false, 0
}

// end returns the patch, in memory of its own.
func (w *walk) end() (Patch, error) {
	if w.err != nil || len(w.ends) == 0 {
		return nil, w.err
	}
	const lengths = 8 // bytes of an operation besides its path and value, roughly
	patch := make(Patch, 0, len(w.written)+lengths*(len(w.ends)+1))
	patch = binary.AppendUvarint(patch, uint64(len(w.ends)))
	from := 0
	for _, to := range w.ends {
		patch = appendOperation(patch, to.op, w.written[from:to.path], w.written[to.path:to.value])
		from = to.value
	}
	return patch, nil
}

// equal tells whether two values are alike.
func (w *walk) equal(s *shape, before, after reflect.Value) bool {
	if s.known(before, after) {
		return true
	}
	inner := walk{only: true}
	inner.values(s, before, after, nil)
	if inner.err != nil && w.err == nil {
		w.err = inner.err
	}
	return !inner.differs
}

// known tells whether two values of a type are known to be alike. Of those in maps it isn't known:
// they have no address.
func (s *shape) known(before, after reflect.Value) bool {
	return before.CanAddr() && after.CanAddr() &&
		s.same(unsafe.Pointer(before.UnsafeAddr()), unsafe.Pointer(after.UnsafeAddr()))
}

func (w *walk) done() bool { return w.err != nil || w.only && w.differs }

// emit writes a change of what is at the path, to a value of the shape; there is none for a
// removal.
func (w *walk) emit(op string, s *shape, value reflect.Value) {
	w.note(op, func() { w.value(s, value) })
}

// note writes a change of what is at the path. write writes the value where it has one.
func (w *walk) note(op string, write func()) {
	w.differs = true
	if w.only || w.err != nil {
		return
	}
	w.written = append(w.written, w.path...)
	path := len(w.written)
	if op != remove {
		write()
	}
	w.ends = append(w.ends, ends{op, path, len(w.written)})
}

// values compares two values that are there, the first of which is of the shape. key is the merge
// key of the list that they may be.
func (w *walk) values(s *shape, before, after reflect.Value, key *field) {
	if w.done() {
		return
	}
	if before.Type() != after.Type() {
		w.emit(replace, shapeOf(after.Type()), after)
		return
	}
	if s.own {
		w.inJSON(s, before, after)
		return
	}
	switch before.Kind() {
	case reflect.Pointer:
		switch {
		case before.Pointer() == after.Pointer():
		case before.IsNil() || after.IsNil():
			w.emit(replace, s, after)
		default:
			w.values(s.element, before.Elem(), after.Elem(), key)
		}
	case reflect.Interface:
		switch {
		case before.IsNil() && after.IsNil():
		case before.IsNil() || after.IsNil():
			w.emit(replace, s, after)
		default:
			w.values(shapeOf(before.Elem().Type()), before.Elem(), after.Elem(), key)
		}
	case reflect.Struct:
		w.fields(s, before, after)
	case reflect.Map:
		w.maps(s, before, after)
	case reflect.Slice:
		switch {
		case before.IsNil() != after.IsNil():
			w.emit(replace, s, after)
		case before.Type().Elem().Kind() == reflect.Uint8:
			if string(before.Bytes()) != string(after.Bytes()) {
				w.emit(replace, s, after)
			}
		default:
			w.lists(s, before, after, key)
		}
	case reflect.Array, reflect.Func:
		w.inJSON(s, before, after)
	default:
		if !before.Equal(after) {
			w.emit(replace, s, after)
		}
	}
}

// inJSON compares values of a type that has a form of its own in JSON.
func (w *walk) inJSON(s *shape, before, after reflect.Value) {
	if reflect.DeepEqual(before.Interface(), after.Interface()) {
		return
	}
	was, err := json.Marshal(before.Interface())
	if err != nil {
		w.err = err
		return
	}
	now, err := json.Marshal(after.Interface())
	if err != nil {
		w.err = err
		return
	}
	if string(was) != string(now) {
		w.emit(replace, s, after)
	}
}

// fields compares structs. Where both have an address it looks at those fields only that lie in
// words that differ.
func (w *walk) fields(s *shape, before, after reflect.Value) {
	if s.fieldOf == nil || !before.CanAddr() || !after.CanAddr() {
		for i := range s.fields {
			w.field(&s.fields[i], before, after)
		}
		return
	}
	p, q := unsafe.Pointer(before.UnsafeAddr()), unsafe.Pointer(after.UnsafeAddr())
	next := 0 // of the fields
	for i := uintptr(0); ; {
		i = differsAt(p, q, i, s.size)
		if i == s.size || w.done() {
			return
		}
		word := i / wordSize
		next = max(next, int(s.fieldOf[word]))
		i = (word + 1) * wordSize
		for ; next < len(s.fields) && s.fields[next].offset < i; next++ {
			f := &s.fields[next]
			// Of a struct it shows soon enough.
			isStruct := f.shape.kind == structure && !f.shape.own
			if isStruct || !f.shape.same(unsafe.Add(p, f.offset), unsafe.Add(q, f.offset)) {
				w.field(f, before, after)
			}
			i = max(i, (f.offset+f.size)/wordSize*wordSize)
		}
	}
}

func (w *walk) field(f *field, before, after reflect.Value) {
	if w.done() {
		return
	}
	was, now := before.Field(f.index), after.Field(f.index)
	if f.inline {
		w.values(f.shape, was, now, nil)
		return
	}
	hadIt, hasIt := f.in(was), f.in(now)
	if !hadIt && !hasIt {
		return
	}
	outside := w.enter(f.name)
	switch {
	case !hadIt:
		w.emit(add, f.shape, now)
	case !hasIt:
		w.emit(remove, nil, reflect.Value{})
	default:
		w.values(f.shape, was, now, f.key)
	}
	w.leave(outside)
}

func (w *walk) maps(s *shape, before, after reflect.Value) {
	if before.IsNil() != after.IsNil() {
		w.emit(replace, s, after)
		return
	}
	if before.Type().Key().Kind() != reflect.String {
		w.inJSON(s, before, after)
		return
	}
	switch was := before.Interface().(type) {
	case map[string]string:
		w.texts(was, after.Interface().(map[string]string))
		return
	case corev1.ResourceList:
		w.resources(was, after.Interface().(corev1.ResourceList))
		return
	}
	keys := before.MapKeys()
	for _, key := range after.MapKeys() {
		if !before.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	element := shapeOf(before.Type().Elem())
	for _, key := range keys {
		was, now := before.MapIndex(key), after.MapIndex(key)
		outside := w.enter(key.String())
		switch {
		case !was.IsValid():
			w.emit(add, element, now)
		case !now.IsValid():
			w.emit(remove, nil, reflect.Value{})
		default:
			w.values(element, was, now, nil)
		}
		w.leave(outside)
		if w.done() {
			return
		}
	}
}

// texts is maps for labels and the like, which is most of what plugins change.
func (w *walk) texts(before, after map[string]string) {
	entries(w, before, after, func(was, now string) bool { return was == now },
		writeText)
}

// resources is maps for requests and limits.
func (w *walk) resources(before, after corev1.ResourceList) {
	entries(w, before, after, func(was, now resource.Quantity) bool {
		return was == now || was.String() == now.String()
	}, func(b []byte, q resource.Quantity) ([]byte, error) {
		return writeText(b, q.String())
	})
}

// entries compares maps. write appends a value.
func entries[K ~string, V any](w *walk, before, after map[K]V, alike func(was, now V) bool,
	write func([]byte, V) ([]byte, error)) {
	var room [8]K
	keys := room[:0]
	for key, was := range before {
		if now, ok := after[key]; !ok || !alike(was, now) {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	if len(keys) > 1 {
		slices.Sort(keys)
	}
	for _, key := range keys {
		_, had := before[key]
		now, has := after[key]
		op := replace
		switch {
		case !has:
			op = remove
		case !had:
			op = add
		}
		outside := w.enter(string(key))
		w.note(op, func() { w.written, w.err = write(w.written, now) })
		w.leave(outside)
		if w.done() {
			return
		}
	}
}

// enter has the walk be at what is called so where it is, until it leaves for the length that the
// path had.
func (w *walk) enter(name string) (outside int) {
	outside = len(w.path)
	w.path = append(w.path, '/')
	for i := range len(name) {
		switch c := name[i]; c {
		case '~':
			w.path = append(w.path, "~0"...)
		case '/':
			w.path = append(w.path, "~1"...)
		default:
			w.path = append(w.path, c)
		}
	}
	return outside
}

// enterElement is enter for the element of a list.
func (w *walk) enterElement(index int) (outside int) {
	outside = len(w.path)
	w.path = strconv.AppendInt(append(w.path, '/'), int64(index), 10)
	return outside
}

func (w *walk) leave(outside int) { w.path = w.path[:outside] }
