package jsondiff

// kept are the things of a kind that an object has, and what has become of those that it had in the
// beginning. Each has its index for good: what is gone leaves its place empty.
type kept[T any] struct {
	now []T
	// first are those of the beginning, once anything has become of them.
	first []T
	log   []became[T]
	// While all of it is remembered anew, next is the index for what comes next.
	anew bool
	next int
}

// became is what a change has put at an index.
type became[T any] struct {
	index, change int
	is            T
}

// add adds what wasn't there before a change, 0 for what was there from the beginning.
func (k *kept[T]) add(change int, thing T) (index int) {
	index = len(k.now)
	if k.anew {
		index = k.next
		k.next++
	}
	if change == 0 {
		k.now = append(k.now, thing)
	} else {
		k.set(change, index, thing)
	}
	return index
}

// set puts something in another's place, or behind all.
func (k *kept[T]) set(change, index int, thing T) {
	k.begin()
	k.log = append(k.log, became[T]{index, change, thing})
	k.now = put(k.now, index, thing)
}

// put puts something at an index, which may be that behind all.
func put[T any](to []T, index int, thing T) []T {
	if index == len(to) {
		return append(to, thing)
	}
	to[index] = thing
	return to
}

// begin keeps what there is in the beginning.
func (k *kept[T]) begin() {
	if len(k.log) == 0 {
		k.first = append(k.first, k.now...)
	}
}

// beginning is what there was in the beginning.
func (k *kept[T]) beginning() []T {
	if len(k.log) == 0 {
		return k.now
	}
	return k.first
}

// refill has all be remembered anew from an index on: what is added takes the places of what there
// was.
func (k *kept[T]) refill(next int) { k.anew, k.next = true, next }

// end empties the places that nothing has taken since refill.
func (k *kept[T]) end(change int) {
	var gone T
	for ; k.next < len(k.now); k.next++ {
		k.set(change, k.next, gone)
	}
	k.anew = false
}

func (k *kept[T]) clear() {
	clear(k.now)
	clear(k.first)
	clear(k.log)
	k.now, k.first, k.log, k.anew = k.now[:0], k.first[:0], k.log[:0], false
}

// states are the things of a kind as they were after one change, and then after the next.
type states[T any] struct {
	now  []T
	read int // of the log
}

// begin goes back to the beginning.
func (s *states[T]) begin(of *kept[T]) {
	s.now, s.read = append(s.now[:0], of.beginning()...), 0
}

// next goes on to what there was after a change, and returns what that has put where.
func (s *states[T]) next(of *kept[T], change int) []became[T] {
	from := s.read
	for ; s.read < len(of.log) && of.log[s.read].change <= change; s.read++ {
		s.now = put(s.now, of.log[s.read].index, of.log[s.read].is)
	}
	return of.log[from:s.read]
}

func (s *states[T]) clear() {
	clear(s.now)
	s.now, s.read = s.now[:0], 0
}
