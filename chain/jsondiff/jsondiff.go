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
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"
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

// Of returns the operations, none where the two are alike. Both must be pointers to the same type,
// or the same kind of map; an error is that of writing a value as JSON.
func Of(before, after any) ([]Operation, error) {
	return compare(before, after, false)
}

// Sync is Of, and makes before what after is. The two share no memory that could be changed. After
// an error before is of no more use.
func Sync(before, after any) ([]Operation, error) {
	return compare(before, after, true)
}

func compare(before, after any, bring bool) ([]Operation, error) {
	was, now := reflect.ValueOf(before), reflect.ValueOf(after)
	if was.Kind() == reflect.Pointer && was.Type() == now.Type() && !was.IsNil() && !now.IsNil() &&
		sameOf(was.Type().Elem())(was.UnsafePointer(), now.UnsafePointer()) {
		return nil, nil
	}
	w := walks.Get().(*walk)
	defer walks.Put(w)
	w.begin()
	w.sync = bring
	w.values(was, now, "")
	return w.end()
}

// walk is one comparison. What it has allocated is used again by another.
type walk struct {
	path       []string
	operations []Operation
	err        error
	// only says that whether there is a difference is all that is asked for, differs that there is.
	only, differs bool
	// sync says that what was is to become what is, see bring.
	sync bool
	// written has the values of the operations, one after the other; ends says where each ends.
	// pointer is the last path that was written.
	written bytes.Buffer
	encoder *json.Encoder // writes to written
	ends    []int
	pointer []byte
}

var walks = sync.Pool{New: func() any {
	w := &walk{}
	w.encoder = json.NewEncoder(&w.written)
	return w
}}

func (w *walk) begin() {
	w.path, w.operations, w.ends, w.err = w.path[:0], w.operations[:0], w.ends[:0], nil
	w.differs = false
	w.written.Reset()
}

// end returns the operations, in memory of their own.
func (w *walk) end() ([]Operation, error) {
	if w.err != nil || len(w.operations) == 0 {
		return nil, w.err
	}
	operations, values := slices.Clone(w.operations), bytes.Clone(w.written.Bytes())
	clear(w.operations)
	from := 0
	for i, to := range w.ends {
		if operations[i].Op != "remove" {
			operations[i].Value = values[from:to:to]
		}
		from = to
	}
	return operations, nil
}

// equal tells whether two values are alike.
func (w *walk) equal(before, after reflect.Value, key string) bool {
	if known(before, after, sameOf(before.Type())) {
		return true
	}
	inner := walk{only: true}
	inner.values(before, after, key)
	if inner.err != nil && w.err == nil {
		w.err = inner.err
	}
	return !inner.differs
}

// known tells whether two values of a type are known to be alike. Of those in maps it isn't known:
// they have no address.
func known(before, after reflect.Value, s same) bool {
	return before.CanAddr() && after.CanAddr() &&
		s(unsafe.Pointer(before.UnsafeAddr()), unsafe.Pointer(after.UnsafeAddr()))
}

func (w *walk) done() bool { return w.err != nil || w.only && w.differs }

// bring makes before what after is. What has no address, as a value of a map, is brought by what
// holds it.
func (w *walk) bring(before, after reflect.Value) {
	if w.sync && before.CanSet() {
		assign(before, after)
	}
}

// emit writes an operation on what is at the path; value is invalid for a removal.
func (w *walk) emit(op string, value reflect.Value) {
	w.differs = true
	if w.only || w.err != nil {
		return
	}
	w.operations = append(w.operations, Operation{Op: op, Path: w.where()})
	if op != "remove" {
		w.err = w.write(value)
	}
	w.ends = append(w.ends, w.written.Len())
}

// replace writes that another value is at the path.
func (w *walk) replace(before, after reflect.Value) {
	w.emit("replace", after)
	w.bring(before, after)
}

func (w *walk) at(segment string, do func()) {
	w.path = append(w.path, segment)
	do()
	w.path = w.path[:len(w.path)-1]
}

// values compares two values that are there. key is the merge key of the list that they may be.
func (w *walk) values(before, after reflect.Value, key string) {
	if w.done() {
		return
	}
	if !before.IsValid() || !after.IsValid() || before.Type() != after.Type() {
		if before.IsValid() || after.IsValid() {
			w.emit("replace", after)
		}
		return
	}
	shape := shapeOf(before.Type())
	if shape.own {
		w.inJSON(before, after)
		return
	}
	switch before.Kind() {
	case reflect.Pointer, reflect.Interface:
		switch {
		case before.IsNil() && after.IsNil():
		case before.IsNil() || after.IsNil():
			w.replace(before, after)
		case before.Kind() == reflect.Pointer && before.Pointer() == after.Pointer():
		case before.Kind() == reflect.Pointer:
			w.values(before.Elem(), after.Elem(), key)
		default:
			known := len(w.operations)
			w.values(before.Elem(), after.Elem(), key)
			if len(w.operations) > known {
				w.bring(before, after)
			}
		}
	case reflect.Struct:
		w.fields(shape, before, after)
	case reflect.Map:
		w.maps(before, after)
	case reflect.Slice:
		switch {
		case before.IsNil() != after.IsNil():
			w.replace(before, after)
		case before.Type().Elem().Kind() == reflect.Uint8:
			if string(before.Bytes()) != string(after.Bytes()) {
				w.replace(before, after)
			}
		default:
			w.lists(before, after, key)
		}
	default:
		if !before.Equal(after) {
			w.replace(before, after)
		}
	}
}

// inJSON compares values of a type that has a form of its own in JSON.
func (w *walk) inJSON(before, after reflect.Value) {
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
		w.emit("replace", after)
	}
	w.bring(before, after)
}

func (w *walk) fields(s *shape, before, after reflect.Value) {
	// Where both have an address, fields that are alike needn't be taken out to be told so.
	var p, q unsafe.Pointer
	if before.CanAddr() && after.CanAddr() {
		p, q = unsafe.Pointer(before.UnsafeAddr()), unsafe.Pointer(after.UnsafeAddr())
	}
	for i := range s.fields {
		f := &s.fields[i]
		if p != nil && f.same(unsafe.Add(p, f.offset), unsafe.Add(q, f.offset)) {
			continue
		}
		was, now := before.Field(f.index), after.Field(f.index)
		if f.inline {
			w.values(was, now, "")
			continue
		}
		hadIt, hasIt := f.in(was), f.in(now)
		if !hadIt && !hasIt {
			w.bring(was, now)
			continue
		}
		w.path = append(w.path, f.name)
		switch {
		case !hadIt:
			w.emit("add", now)
			w.bring(was, now)
		case !hasIt:
			w.emit("remove", reflect.Value{})
			w.bring(was, now)
		default:
			w.values(was, now, f.mergeKey)
		}
		w.path = w.path[:len(w.path)-1]
		if w.done() {
			return
		}
	}
}

func (w *walk) maps(before, after reflect.Value) {
	if before.IsNil() != after.IsNil() {
		w.replace(before, after)
		return
	}
	if before.Type().Key().Kind() != reflect.String {
		w.inJSON(before, after)
		return
	}
	if was, ok := before.Interface().(map[string]string); ok {
		w.texts(was, after.Interface().(map[string]string))
		return
	}
	keys := before.MapKeys()
	for _, key := range after.MapKeys() {
		if !before.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, key := range keys {
		was, now := before.MapIndex(key), after.MapIndex(key)
		known := len(w.operations)
		w.at(key.String(), func() {
			switch {
			case !was.IsValid():
				w.emit("add", now)
			case !now.IsValid():
				w.emit("remove", reflect.Value{})
			default:
				w.values(was, now, "")
			}
		})
		if w.done() {
			return
		}
		if w.sync && len(w.operations) > known {
			before.SetMapIndex(key, copyOf(now)) // which takes away what isn't there
		}
	}
}

// texts is maps for labels and the like, which is most of what plugins change.
func (w *walk) texts(before, after map[string]string) {
	var keys []string
	for key, was := range before {
		if now, ok := after[key]; !ok || now != was {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		_, had := before[key]
		now, has := after[key]
		w.at(key, func() {
			switch {
			case !had:
				w.emit("add", reflect.ValueOf(now))
			case !has:
				w.emit("remove", reflect.Value{})
			default:
				w.emit("replace", reflect.ValueOf(now))
			}
		})
		if w.done() {
			return
		}
		switch {
		case w.sync && has:
			before[key] = now
		case w.sync:
			delete(before, key)
		}
	}
}

// escaper makes a segment of a pointer of a name.
var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// where is the pointer to where the walk is.
func (w *walk) where() string {
	w.pointer = w.pointer[:0]
	for _, segment := range w.path {
		w.pointer = append(w.pointer, '/')
		if strings.ContainsAny(segment, "~/") {
			segment = escaper.Replace(segment)
		}
		w.pointer = append(w.pointer, segment...)
	}
	return string(w.pointer)
}
