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
	before, after *Memory
	size          int
	once          sync.Once
	operations    []Operation
	err           error
}

// newDifference takes over the memories.
func newDifference(before, after *Memory) *Difference {
	d := &Difference{before: before, after: after}
	if before.copies() || after.copies() {
		// Copies may be large, and nobody has counted them. What they differ by is what is kept.
		_, _ = d.Operations()
		return d
	}
	d.size = before.size() + after.size()
	return d
}

// Size is how much memory it takes until it is asked for its operations, in bytes, roughly.
func (d *Difference) Size() int {
	if d == nil {
		return 0
	}
	return d.size
}

// Operations are the JSON patch that makes the second state of the first. It may be empty: a
// quantity that is written another way is the same. An error is that of writing a value as JSON.
func (d *Difference) Operations() ([]Operation, error) {
	if d == nil {
		return nil, nil
	}
	d.once.Do(func() {
		defer func() {
			if cause := recover(); cause != nil {
				// As of a type whose own form can't be written.
				d.operations, d.err = nil, fmt.Errorf("comparing two states of an object: %v", cause)
			}
		}()
		defer d.release()
		d.operations, d.err = between(d.before, d.after)
	})
	return d.operations, d.err
}

func (d *Difference) release() {
	d.before.Forget()
	d.after.Forget()
	d.before, d.after = nil, nil
}
