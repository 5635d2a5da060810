package jsondiff_test

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/chain/jsondiff"
)

// A snapshot is the object as it was, whatever was in its memory before and whatever becomes of the
// object.
func TestSnapshot(t *testing.T) {
	for seed := range int64(30) {
		object := randomPod(seed)
		snapshot := jsondiff.Snapshot(object)
		if !reflect.DeepEqual(snapshot, object) {
			t.Fatalf("seed %d: not alike", seed)
		}
		was := encode(t, object)
		for _, l := range leavesOf(object) {
			l.change()
		}
		for i := range object.ManagedFields {
			copy(object.ManagedFields[i].FieldsV1.Raw, "spoilt")
		}
		if encode(t, snapshot) != was {
			t.Fatalf("seed %d: it changed with the object", seed)
		}
		jsondiff.Release(snapshot)
	}
}

// hiding has fields that others can't set one by one.
type hiding struct {
	Texts  []string
	Inner  map[string][]int
	Any    any
	Raw    json.RawMessage
	secret int
	text   string
}

func TestSnapshotOfHiddenFields(t *testing.T) {
	for i := range 3 {
		object := &hiding{Texts: []string{"a"}, Inner: map[string][]int{"a": {1}}, Any: map[string]any{"a": []any{"b"}},
			Raw: json.RawMessage(`{}`), secret: i, text: "x"}
		snapshot := jsondiff.Snapshot(object)
		if !reflect.DeepEqual(snapshot, object) {
			t.Fatalf("got %v", snapshot)
		}
		object.Texts[0], object.Inner["a"][0], object.Raw[0] = "c", 2, '['
		object.Any.(map[string]any)["a"].([]any)[0] = "c"
		if got := snapshot.(*hiding); got.Texts[0] != "a" || got.Inner["a"][0] != 1 || got.Raw[0] != '{' ||
			got.Any.(map[string]any)["a"].([]any)[0] != "b" {
			t.Errorf("it changed with the object: %v", got)
		}
		jsondiff.Release(snapshot)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	object := pod()
	for name, one := range map[string]func(){
		"Snapshot": func() { jsondiff.Release(jsondiff.Snapshot(object)) },
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
