package jsondiff

import (
	"reflect"
	"slices"
	"strconv"
)

// lists compares two lists. What both have, in the same order, stays where it is; elements that
// changed places make the list a new one.
func (w *walk) lists(before, after reflect.Value, key string) {
	if w.only {
		// That they differ shows without telling elements apart.
		if before.Len() != after.Len() {
			w.differs = true
		}
		for i := 0; i < before.Len() && !w.done(); i++ {
			w.values(before.Index(i), after.Index(i), "")
		}
		return
	}
	if w.inPlace(before, after, key) {
		element := sameOf(before.Type().Elem())
		for i := range before.Len() {
			if was, now := before.Index(i), after.Index(i); !known(was, now, element) {
				w.at(strconv.Itoa(i), func() { w.values(was, now, "") })
			}
		}
		return
	}
	steps, ok := w.align(before, after, key)
	if !ok {
		w.replace(before, after)
		return
	}
	at, element := 0, sameOf(before.Type().Elem())
	for _, step := range steps {
		w.at(strconv.Itoa(at), func() {
			switch {
			case step.was < 0:
				w.emit("add", after.Index(step.now))
			case step.now < 0:
				w.emit("remove", reflect.Value{})
			default:
				was, now := before.Index(step.was), after.Index(step.now)
				if !known(was, now, element) {
					w.values(was, now, "")
				}
			}
		})
		if step.now >= 0 {
			at++
		}
	}
	if slices.ContainsFunc(steps, step.alone) {
		w.bring(before, after)
	}
}

// inPlace tells whether two lists have the same elements in the same places, as most have.
func (w *walk) inPlace(before, after reflect.Value, key string) bool {
	if before.Len() != after.Len() {
		return false
	}
	for i := range before.Len() {
		was, ok := identity(before.Index(i), key)
		if now, same := identity(after.Index(i), key); !ok || !same || was != now {
			return false
		}
	}
	return true
}

// step is an element of a list before and after, -1 where it isn't there.
type step struct{ was, now int }

// alone tells whether it is there either before or after.
func (s step) alone() bool { return s.was < 0 || s.now < 0 }

// align pairs the elements of two lists. It is false where they stand in another order.
func (w *walk) align(before, after reflect.Value, key string) ([]step, bool) {
	if before.Len() == 0 || after.Len() == 0 {
		return w.alignByValue(before, after), true
	}
	was, now := identities(before, key), identities(after, key)
	if was == nil || now == nil {
		return w.alignByValue(before, after), true
	}
	had, has := indices(was), indices(now)
	if len(had) < len(was) || len(has) < len(now) {
		return w.alignByValue(before, after), true // not unique
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
func (w *walk) alignByValue(before, after reflect.Value) []step {
	was, now := before.Len(), after.Len()
	start := 0
	for start < was && start < now && w.equal(before.Index(start), after.Index(start), "") {
		start++
	}
	end := 0
	for end < was-start && end < now-start && w.equal(before.Index(was-1-end), after.Index(now-1-end), "") {
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
func identities(list reflect.Value, key string) []string {
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

// identity is what an element is told apart by from others of its list, and whether there is one.
func identity(element reflect.Value, key string) (string, bool) {
	for element.Kind() == reflect.Interface || element.Kind() == reflect.Pointer {
		if element.IsNil() {
			return "", false
		}
		element = element.Elem()
	}
	var id reflect.Value
	switch element.Kind() {
	case reflect.Struct:
		if key == "" {
			return "", false
		}
		s := shapeOf(element.Type())
		if at := slices.IndexFunc(s.fields, func(f field) bool { return f.name == key }); at >= 0 {
			id = element.Field(s.fields[at].index)
		}
	case reflect.Map:
		if element.Type().Key().Kind() == reflect.String {
			id = element.MapIndex(reflect.ValueOf("name").Convert(element.Type().Key()))
		}
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
