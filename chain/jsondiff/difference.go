package jsondiff

import (
	"fmt"
	"sync"
)

// Difference is what lies between two states of an object, as long as nobody has asked for it: to
// tell that there is something takes a fraction of what it takes to say what. It has nothing of the
// object that could be changed, so that it may be asked when the object has gone on, by several at
// a time. nil is no difference.
type Difference struct {
	// memory has both states until one has asked: the later one is that after so many changes.
	memory *Memory
	change int
	size   int
	once   sync.Once
	patch  Patch
	err    error
}

// known is a difference that has been asked for.
func known(find func() (Patch, error)) *Difference {
	d := &Difference{}
	d.once.Do(func() { d.find(find) })
	return d
}

// Size is how much memory there is until all differences of an object have been asked for their
// patches, in bytes, roughly: the first one says what it takes, others what they add.
func (d *Difference) Size() int {
	if d == nil {
		return 0
	}
	return d.size
}

// Patch is the JSON patch that makes the second state of the first. It may be empty: a quantity
// that is written another way is the same. An error is that of writing a value as JSON. Of an
// object's differences the earlier ones are asked first at the least cost.
func (d *Difference) Patch() (Patch, error) {
	if d == nil {
		return nil, nil
	}
	d.once.Do(func() {
		m := d.memory
		defer m.Forget()
		m.mu.Lock()
		defer m.mu.Unlock()
		d.find(func() (Patch, error) { return between(m, d.change) })
		d.memory = nil
	})
	return d.patch, d.err
}

func (d *Difference) find(find func() (Patch, error)) {
	defer func() {
		if cause := recover(); cause != nil {
			// As of a type whose own form can't be written.
			d.patch, d.err = nil, fmt.Errorf("comparing two states of an object: %v", cause)
		}
	}()
	d.patch, d.err = find()
}
