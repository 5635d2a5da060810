package jsondiff

// kept are the things of a kind that an object has, and those that it had before it changed. Each
// has its index for good: what is gone leaves its place empty.
type kept[T any] struct {
	now  []T
	past []past[T]
}

// past is what was at an index until a change.
type past[T any] struct {
	index, change int
	was           T
}

// add adds what wasn't there before a change, 0 for what was there from the beginning, and returns
// its index.
func (k *kept[T]) add(change int, thing T) int {
	if change > 0 {
		k.past = append(k.past, past[T]{index: len(k.now), change: change})
	}
	k.now = append(k.now, thing)
	return len(k.now) - 1
}

// set puts something in another's place.
func (k *kept[T]) set(change, index int, thing T) {
	k.past = append(k.past, past[T]{index, change, k.now[index]})
	k.now[index] = thing
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
	k.now, k.past = k.now[:0], k.past[:0]
}
