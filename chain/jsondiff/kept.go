package jsondiff

// kept are the things of a kind that an object has, and what has become of those that it had in the
// beginning. Each has its index for good: what is gone leaves its place empty.
type kept[T any] struct {
	now []T
	log []became[T]
	// next is the index for what comes next: behind all, but while all is remembered anew.
	next int
}

// became is what a change has put at an index, and what was there; nothing was behind all.
type became[T any] struct {
	index, change int
	was, is       T
}

// add adds what wasn't there before a change, 0 for what was there from the beginning.
func (k *kept[T]) add(change int, thing T) {
	if change == 0 {
		k.now = append(k.now, thing)
	} else {
		k.set(change, k.next, thing)
	}
	k.next++
}

// set puts something in another's place, or behind all.
func (k *kept[T]) set(change, index int, thing T) {
	if index == len(k.now) {
		var nothing T
		k.now = append(k.now, nothing)
	}
	k.log = append(k.log, became[T]{index, change, k.now[index], thing})
	k.now[index] = thing
}

// refill has all be remembered anew from an index on: what is added takes the places of what there
// was.
func (k *kept[T]) refill(next int) { k.next = next }

// refilled empties the places that nothing has taken since refill.
func (k *kept[T]) refilled(change int) {
	var gone T
	for ; k.next < len(k.now); k.next++ {
		k.set(change, k.next, gone)
	}
}

func (k *kept[T]) clear() {
	clear(k.now)
	clear(k.log)
	k.now, k.log, k.next = k.now[:0], k.log[:0], 0
}

// states are the things of a kind as they were after one change, and then after the next.
type states[T any] struct {
	now  []T
	read int // of the log
}

// begin goes back to the beginning. What was added since has its place already, which is empty.
func (s *states[T]) begin(of *kept[T]) {
	s.now, s.read = append(s.now[:0], of.now...), 0
	for i := len(of.log) - 1; i >= 0; i-- {
		s.now[of.log[i].index] = of.log[i].was
	}
}

// next goes on to what there was after a change, and returns what that has put where.
func (s *states[T]) next(of *kept[T], change int) []became[T] {
	from := s.read
	for ; s.read < len(of.log) && of.log[s.read].change <= change; s.read++ {
		became := &of.log[s.read]
		if became.index == len(s.now) { // it was added since the beginning was asked for
			s.now = append(s.now, became.is)
		}
		s.now[became.index] = became.is
	}
	return of.log[from:s.read]
}

func (s *states[T]) clear() {
	clear(s.now)
	s.now, s.read = s.now[:0], 0
}
