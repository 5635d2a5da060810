package jsondiff

import "testing"

// What is used again holds nothing of the object before.
func TestStateHoldsNothing(t *testing.T) {
	object := &struct{ All []*struct{ Text string } }{}
	for range 100 {
		object.All = append(object.All, &struct{ Text string }{})
	}
	m := Remember(object)
	for _, each := range object.All {
		each.Text = "changed"
		if patch, err := m.Since(object).Patch(); err != nil || patch.Len() != 1 {
			t.Fatal(patch.Operations(), err)
		}
	}
	s := m.state
	s.forget()
	for i, p := range s.at[:cap(s.at)] {
		if p != nil {
			t.Errorf("it holds a copy of piece %d", i)
		}
	}
	for i, p := range s.pieces.now[:cap(s.pieces.now)] {
		if p.live != nil {
			t.Errorf("it holds piece %d", i)
		}
	}
}
