package jsondiff

import (
	"reflect"
	"strconv"
	"unsafe"
)

// lists compares two lists. What both have, in the same order, stays where it is; elements that
// changed places make the list a new one.
func (w *walk) lists(s *shape, before, after reflect.Value, key *field) {
	if w.only {
		// That they differ shows without telling elements apart.
		if before.Len() != after.Len() {
			w.differs = true
		}
		for i := 0; i < before.Len() && !w.done(); i++ {
			w.values(s.element, before.Index(i), after.Index(i), nil)
		}
		return
	}
	if same := s.startAlike(before, after); same == before.Len() || s.begins(before, after, key, same) {
		// As most do: the elements are where they were, and others may follow.
		for i := same; i < after.Len(); i++ {
			outside := w.enterElement(i)
			switch {
			case i >= before.Len():
				w.emit(add, s.element, after.Index(i))
			case i == same:
				w.values(s.element, before.Index(i), after.Index(i), nil)
			default:
				w.elements(s, before.Index(i), after.Index(i))
			}
			w.leave(outside)
		}
		return
	}
	steps, ok := w.align(s, before, after, key)
	if !ok {
		w.emit(replace, s, after)
		return
	}
	at := 0
	for _, step := range steps {
		outside := w.enterElement(at)
		switch {
		case step.was < 0:
			w.emit(add, s.element, after.Index(step.now))
		case step.now < 0:
			w.emit(remove, nil, reflect.Value{})
		default:
			w.elements(s, before.Index(step.was), after.Index(step.now))
		}
		w.leave(outside)
		if step.now >= 0 {
			at++
		}
	}
}

// elements compares two elements of lists of the shape.
func (w *walk) elements(s *shape, before, after reflect.Value) {
	if !s.element.known(before, after) {
		w.values(s.element, before, after, nil)
	}
}

// startAlike is how many elements two lists begin with that are known to be alike.
func (s *shape) startAlike(before, after reflect.Value) int {
	p, q := before.UnsafePointer(), after.UnsafePointer()
	n := min(before.Len(), after.Len())
	for i := range n {
		if offset := uintptr(i) * s.element.size; !s.element.same(unsafe.Add(p, offset), unsafe.Add(q, offset)) {
			return i
		}
	}
	return n
}

// begins tells whether a list begins with the elements of another, changed or not, of which the
// first ones are known to be alike.
func (s *shape) begins(before, after reflect.Value, key *field, same int) bool {
	if before.Len() > after.Len() {
		return false
	}
	for i := same; i < before.Len(); i++ {
		was, now := before.Index(i), after.Index(i)
		id, ok := identity(was, key)
		if other, same := identity(now, key); (!ok || !same || id != other) && !s.element.known(was, now) {
			return false
		}
	}
	return true
}

// step is an element of a list before and after, -1 where it isn't there.
type step struct{ was, now int }

// align pairs the elements of two lists. It is false where they stand in another order.
func (w *walk) align(s *shape, before, after reflect.Value, key *field) ([]step, bool) {
	if before.Len() == 0 || after.Len() == 0 {
		return w.alignByValue(s, before, after), true
	}
	was, now := identities(before, key), identities(after, key)
	if was == nil || now == nil {
		return w.alignByValue(s, before, after), true
	}
	had, has := indices(was), indices(now)
	if len(had) < len(was) || len(has) < len(now) {
		return w.alignByValue(s, before, after), true // not unique
	}
	var steps []step
	i, j := 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case i < len(was) && j < len(now) && was[i] == now[j]:
			steps = append(steps, step{i, j})
			i, j = i+1, j+1
		case i < len(was) && !contains(has, was[i]):
			steps = append(steps, step{i, -1})
			i++
		case j < len(now) && !contains(had, now[j]):
			steps = append(steps, step{-1, j})
			j++
		default:
			return nil, false
		}
	}
	return steps, true
}

// alignByValue pairs what is alike at both ends, and in between element by element.
func (w *walk) alignByValue(s *shape, before, after reflect.Value) []step {
	was, now := before.Len(), after.Len()
	start := 0
	for start < was && start < now && w.equal(s.element, before.Index(start), after.Index(start)) {
		start++
	}
	end := 0
	for end < was-start && end < now-start &&
		w.equal(s.element, before.Index(was-1-end), after.Index(now-1-end)) {
		end++
	}
	var steps []step
	for i := range max(was, now) - end {
		s := step{i, i}
		if i >= was-end {
			s.was = -1
		}
		if i >= now-end {
			s.now = -1
		}
		steps = append(steps, s)
	}
	for i := range end {
		steps = append(steps, step{was - end + i, now - end + i})
	}
	return steps
}

// identities are what the elements of a list are told apart by, nil where that is all they are.
func identities(list reflect.Value, key *field) []string {
	ids := make([]string, list.Len())
	for i := range ids {
		id, ok := identity(list.Index(i), key)
		if !ok {
			return nil
		}
		ids[i] = id
	}
	return ids
}

// identity is what an element is told apart by from others of its list, and whether there is one:
// the field that is the key, or the name of one without a type.
func identity(element reflect.Value, key *field) (string, bool) {
	for element.Kind() == reflect.Interface || element.Kind() == reflect.Pointer {
		if element.IsNil() {
			return "", false
		}
		element = element.Elem()
	}
	var id reflect.Value
	switch {
	case element.Kind() == reflect.Struct && key != nil:
		id = element.Field(key.index)
	case element.Kind() == reflect.Map && element.Type().Key().Kind() == reflect.String:
		id = element.MapIndex(reflect.ValueOf("name").Convert(element.Type().Key()))
	}
	for id.IsValid() && id.Kind() == reflect.Interface {
		id = id.Elem()
	}
	switch {
	case !id.IsValid():
		return "", false
	case id.Kind() == reflect.String:
		return id.String(), true
	case id.CanInt():
		return strconv.FormatInt(id.Int(), 10), true
	}
	return "", false
}

func indices(ids []string) map[string]struct{} {
	set := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return set
}

func contains(set map[string]struct{}, id string) bool {
	_, ok := set[id]
	return ok
}
