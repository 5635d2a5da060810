package jsondiff_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gatehouse.dev/chain/jsondiff"
)

// What a memory was used for before is not in it.
func TestMemoriesAreUsedAgain(t *testing.T) {
	for seed := range int64(60) {
		object := randomPod(seed)
		was := object.DeepCopy()
		memory := jsondiff.Remember(object)
		for _, l := range leavesOf(object) {
			l.change()
		}
		for i := range object.ManagedFields {
			copy(object.ManagedFields[i].FieldsV1.Raw, `{"f:b"`)
		}
		want, err := jsondiff.Of(was, object)
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, memory, object); got != encode(t, want) {
			t.Fatalf("seed %d: got %s, want %s", seed, got, encode(t, want))
		}
	}
}

// hiding has fields that others can't see, and of kinds that take reflection.
type hiding struct {
	Texts   []string
	Inner   map[string][]int
	Any     any
	Raw     json.RawMessage
	Array   [2]*int
	Maps    []map[string]string
	Amounts map[string]resource.Quantity
	Time    time.Time
	Nothing []struct{}
	Lists   [2][]string
	secret  int
	text    string
}

func TestHiddenFields(t *testing.T) {
	made := func() *hiding {
		one := 1
		return &hiding{Texts: []string{"a"}, Inner: map[string][]int{"a": {1}}, Any: map[string]any{"a": []any{"b"}},
			Raw: json.RawMessage(`{}`), Array: [2]*int{nil, &one}, Maps: []map[string]string{nil, {"a": "b"}},
			Amounts: map[string]resource.Quantity{"a": resource.MustParse("1.0000000000000000000001")},
			Time:    time.Unix(1, 0), Nothing: make([]struct{}, 2), secret: 1, text: "x"}
	}
	for name, change := range map[string]func(*hiding){
		"nothing that shows": func(h *hiding) { h.secret, h.text = 2, "y" },
		"texts":              func(h *hiding) { h.Texts[0] = "c" },
		"map of others":      func(h *hiding) { h.Inner["a"][0] = 2 },
		"any":                func(h *hiding) { h.Any.(map[string]any)["a"].([]any)[0] = "c" },
		"raw":                func(h *hiding) { h.Raw = json.RawMessage(`[]`) },
		"raw in place":       func(h *hiding) { copy(h.Raw, "[]") },
		"array":              func(h *hiding) { *h.Array[1] = 2 },
		"map in a list":      func(h *hiding) { h.Maps[1]["a"] = "c" },
		"map that was nil":   func(h *hiding) { h.Maps[0] = map[string]string{"a": "b"} },
		"long amount": func(h *hiding) {
			q := h.Amounts["a"]
			q.Add(resource.MustParse("1"))
			h.Amounts["a"] = q
		},
		"amount in place": func(h *hiding) { long := h.Amounts["a"]; long.AsDec().SetUnscaled(1) },
		"time":            func(h *hiding) { h.Time = time.Unix(2, 0) },
		"nothing":         func(h *hiding) { h.Nothing = h.Nothing[:1] },
		"what is no longer there": func(h *hiding) {
			old := h.Inner
			h.Inner = map[string][]int{"a": {1}}
			old["a"][0] = 2
		},
		"lists in an array": func(h *hiding) { h.Lists[1] = []string{"b"} },
		"same again":        func(h *hiding) { h.Any, h.Inner = made().Any, made().Inner },
	} {
		t.Run(name, func(t *testing.T) {
			object := made()
			memory := jsondiff.Remember(object)
			change(object)
			runtime.GC()
			want, err := jsondiff.Of(made(), object)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(t, memory, object); got != encode(t, want) {
				t.Errorf("got %s, want %s", got, encode(t, want))
			}
		})
	}
}

// What took the place of something isn't taken for it where the memory of that is used again: what
// is remembered is held.
func TestWhatIsRememberedIsHeld(t *testing.T) {
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 2000 {
				text := func(n int) string { return fmt.Sprint("text ", worker, " ", n) }
				object := &corev1.Pod{Spec: corev1.PodSpec{NodeName: text(i), Containers: make([]corev1.Container, 1)}}
				object.Spec.Containers[0].Args = []string{text(i)}
				memory := jsondiff.Remember(object)
				object.Spec.NodeName, object.Spec.Containers = "", nil
				if i%100 == 0 {
					runtime.GC()
				}
				object.Spec.NodeName, object.Spec.Containers = text(i+1), make([]corev1.Container, 1)
				object.Spec.Containers[0].Args = []string{text(i + 1)}
				changes, err := since(memory, object)
				if err != nil || len(changes) != 2 {
					t.Errorf("got %v, %v", changes, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// An object may be nothing at all.
func TestRememberNothing(t *testing.T) {
	if got := told(t, jsondiff.Remember(&struct{}{}), &struct{}{}); got != "null" {
		t.Errorf("got %s", got)
	}
}

func BenchmarkRemember(b *testing.B) {
	object := pod()
	for name, one := range map[string]func(){
		"Remember": func() { jsondiff.Remember(object).Forget() },
		"DeepCopy": func() { sink = object.DeepCopy() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one()
			}
		})
	}
}

var sink *corev1.Pod
