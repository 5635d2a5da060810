package jsondiff

// kept are the things of a kind that an object has, and those that it had before it changed. Each
// has its index for good: what is gone leaves its place empty.
type kept[T any] struct {
	now  []T
	past []past[T]
	// While all of it is remembered anew, next is the index for what comes next.
	anew bool
	next int
}

// past is what was at an index until a change.
type past[T any] struct {
	index, change int
	was           T
}

// add adds what wasn't there before a change, 0 for what was there from the beginning, and returns
// its index.
func (k *kept[T]) add(change int, thing T) int {
	i := len(k.now)
	if k.anew {
		i = k.next
		k.next++
	}
	if i < len(k.now) {
		k.set(change, i, thing)
		return i
	}
	if change > 0 {
		k.past = append(k.past, past[T]{index: i, change: change})
	}
	k.now = append(k.now, thing)
	return i
}

// set puts something in another's place.
func (k *kept[T]) set(change, index int, thing T) {
	k.past = append(k.past, past[T]{index, change, k.now[index]})
	k.now[index] = thing
}

// begin has all be remembered anew from an index on: what is added takes the places of what there
// was.
func (k *kept[T]) begin(next int) { k.anew, k.next = true, next }

// end empties the places that nothing has taken since begin.
func (k *kept[T]) end(change int) {
	var gone T
	for ; k.next < len(k.now); k.next++ {
		k.set(change, k.next, gone)
	}
	k.anew = false
}

// after appends what there was when the object had changed so many times.
func (k *kept[T]) after(changes int, to []T) []T {
	to = append(to, k.now...)
	for i := len(k.past) - 1; i >= 0 && k.past[i].change > changes; i-- {
		to[k.past[i].index] = k.past[i].was
	}
	return to
}

func (k *kept[T]) clear() {
	clear(k.now)
	clear(k.past)
	k.now, k.past, k.anew = k.now[:0], k.past[:0], false
}
