package jsondiff_test

import (
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/chain/jsondiff"
)

// Differences that are asked for when the object has gone on, and by several at a time, are what
// they would have been at once.
func TestDifferencesOfThePast(t *testing.T) {
	waiting := false // for who asks
	for seed := range int64(20) {
		object := randomPod(seed)
		all := leavesOf(object)
		memory := jsondiff.Remember(object)
		var differences []*jsondiff.Difference
		var want []string
		for part := range 4 {
			was := object.DeepCopy()
			for i := part; i < len(all); i += 5 {
				all[i].change()
			}
			of, err := jsondiff.Of(was, object)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, encode(t, of))
			changes := memory.Since(object)
			waiting = waiting || changes.Size() > 0
			differences = append(differences, changes)
		}
		var asking sync.WaitGroup
		got := make([]string, 3*len(differences))
		for i := range got {
			asking.Go(func() {
				operations, err := operationsOf(differences[i%len(differences)].Patch())
				if err != nil {
					t.Error(err)
				}
				got[i] = encode(t, operations)
			})
		}
		for _, l := range all {
			l.change()
		}
		if memory.Since(object) == nil {
			t.Error("no change")
		}
		memory.Forget()
		runtime.GC()
		asking.Wait()
		for i := range got {
			if got[i] != want[i%len(want)] {
				t.Errorf("seed %d, change %d:\ngot  %s\nwant %s", seed, i%len(want), got[i], want[i%len(want)])
			}
		}
	}
	if !waiting {
		t.Error("all differences were known at once")
	}
}

// panics when it is written.
type panics struct{ N int }

func (p panics) MarshalJSON() ([]byte, error) { panic("can't be written") }

// It is asked for behind the request, where nobody catches a panic.
func TestDifferencePanics(t *testing.T) {
	type holder struct{ P panics }
	object := &holder{}
	changes := jsondiff.Remember(object).Since(&holder{panics{1}})
	operations, err := operationsOf(changes.Patch())
	if err == nil || operations != nil || err.Error() != "comparing two states of an object: can't be written" {
		t.Errorf("got %v, %v", operations, err)
	}
}

// A difference says how much it holds until it is asked for: of an object that is large, that.
func TestDifferenceSize(t *testing.T) {
	small := pod()
	changed := small.DeepCopy()
	changed.Spec.NodeName = "other"
	large := changed.DeepCopy()
	large.Annotations = map[string]string{"large": string(make([]byte, 1<<20))}
	sizeOf := func(after any) int {
		memory := jsondiff.Remember(small)
		defer memory.Forget()
		return memory.Since(after).Size()
	}
	if size := sizeOf(changed); size < 1<<10 || size > 100<<10 {
		t.Errorf("a pod: %d bytes", size)
	}
	keyed := changed.DeepCopy()
	keyed.Labels = map[string]string{string(make([]byte, 1<<20)): ""}
	for name, after := range map[string]any{"value": large, "key": keyed} {
		if size := sizeOf(after); size < 1<<20 {
			t.Errorf("a large %s: %d bytes", name, size)
		}
	}
	// One that waits holds what is copied later, too.
	secret := &corev1.Secret{}
	memory := jsondiff.Remember(secret)
	secret.Labels = map[string]string{"a": "b"}
	waiting := memory.Since(secret)
	secret.Data = map[string][]byte{"a": make([]byte, 1<<20)}
	if size := memory.Since(secret).Size(); waiting.Size() == 0 || size < 1<<20 {
		t.Errorf("what is copied later: %d bytes", size)
	}
	memory.Forget()
	// Of what has to be copied only the change is kept.
	for name, states := range map[string][2]any{
		"without a type": {map[string]any{"a": "b"}, map[string]any{"a": "c"}},
		"a Secret": {&corev1.Secret{Data: map[string][]byte{"a": []byte("b")}},
			&corev1.Secret{Data: map[string][]byte{"a": []byte("c")}}},
	} {
		changes := jsondiff.Remember(states[0]).Since(states[1])
		operations, err := operationsOf(changes.Patch())
		if size := changes.Size(); size != 0 || err != nil || len(operations) != 1 {
			t.Errorf("%s: %d bytes, %v, %v", name, size, operations, err)
		}
	}
}
