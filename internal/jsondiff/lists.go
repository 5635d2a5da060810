// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jsondiff

import (
	"reflect"
	"strconv"
)

// lists compares two lists. Elements that both have, in the same order, stay where they are. If
// elements changed places, the list is replaced.
func (w *walk) lists(before, after reflect.Value, key string) {
	if w.equalOnly && before.Len() != after.Len() {
		w.differs = true // without telling elements apart
		return
	}
	if w.equalOnly || inPlace(before, after, key) {
		for i := 0; i < before.Len() && !w.done(); i++ {
			outside := w.enterElement(i)
			w.values(before.Index(i), after.Index(i), "")
			w.path = w.path[:outside]
		}
		return
	}
	steps, ok := w.align(before, after, key)
	if !ok {
		w.emit(replace, after)
		return
	}
	at := 0
	for _, step := range steps {
		outside := w.enterElement(at)
		switch {
		case step.was < 0:
			w.emit(add, after.Index(step.now))
		case step.now < 0:
			w.emit(remove, reflect.Value{})
		default:
			w.values(before.Index(step.was), after.Index(step.now), "")
		}
		w.path = w.path[:outside]
		if step.now >= 0 {
			at++
		}
	}
}

// inPlace reports whether align pairs each element with the one in its place.
func inPlace(before, after reflect.Value, key string) bool {
	if before.Len() != after.Len() {
		return false
	}
	for i := range before.Len() {
		was, hasOne := identity(before.Index(i), key)
		now, hasAnother := identity(after.Index(i), key)
		if !hasOne || !hasAnother {
			return true // only their values tell the elements apart
		}
		if was != now {
			return false
		}
	}
	return true
}

// step pairs an element's indexes before and after. An index is -1 if the list doesn't have the
// element.
type step struct{ was, now int }

// align pairs the elements of two lists. It returns false if they stand in another order.
func (w *walk) align(before, after reflect.Value, key string) ([]step, bool) {
	was, had := identities(before, key)
	now, has := identities(after, key)
	if len(was) == 0 || len(now) == 0 {
		return w.alignByValue(before, after), true
	}
	var steps []step
	i, j := 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case i < len(was) && j < len(now) && was[i] == now[j]:
			steps = append(steps, step{i, j})
			i, j = i+1, j+1
		case i < len(was) && !has[was[i]]:
			steps = append(steps, step{i, -1})
			i++
		case j < len(now) && !had[now[j]]:
			steps = append(steps, step{-1, j})
			j++
		default:
			return nil, false
		}
	}
	return steps, true
}

// alignByValue pairs equal elements at both ends, and the elements between them one by one.
func (w *walk) alignByValue(before, after reflect.Value) []step {
	was, now := before.Len(), after.Len()
	start := 0
	for start < was && start < now && w.equal(before.Index(start), after.Index(start)) {
		start++
	}
	end := 0
	for end < was-start && end < now-start && w.equal(before.Index(was-1-end), after.Index(now-1-end)) {
		end++
	}
	steps := make([]step, 0, max(was, now))
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

// identities returns what identifies the elements of a list, in order and as a set. Both are nil if
// only their values identify them.
func identities(list reflect.Value, key string) ([]string, map[string]bool) {
	ids := make([]string, list.Len())
	set := make(map[string]bool, len(ids))
	for i := range ids {
		id, ok := identity(list.Index(i), key)
		if !ok || set[id] {
			return nil, nil
		}
		ids[i], set[id] = id, true
	}
	return ids, set
}

// identity returns what identifies an element in its list, and whether there is such a thing: the
// field that is the merge key, or the name of an element without a type.
func identity(element reflect.Value, key string) (string, bool) {
	for element.Kind() == reflect.Interface || element.Kind() == reflect.Pointer {
		if element.IsNil() {
			return "", false
		}
		element = element.Elem()
	}
	var id reflect.Value
	switch {
	case element.Kind() == reflect.Struct && key != "":
		for _, f := range fieldsOf(element.Type()) {
			if f.name == key {
				id = element.Field(f.index)
			}
		}
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
