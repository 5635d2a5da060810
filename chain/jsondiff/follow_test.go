package jsondiff_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/chain/jsondiff"
)

// An object that goes on in any way, a step at a time, is followed all the way: what is told of
// each step in the end is what Of tells of copies.
func TestFollow(t *testing.T) {
	for seed := range int64(150) {
		random := rand.New(rand.NewSource(seed))
		object := randomPod(seed)
		if seed%2 == 0 {
			object.Status = corev1.PodStatus{} // whose maps are copied, and not put together later
		}
		memory := jsondiff.Remember(object)
		states := []*corev1.Pod{object.DeepCopy()}
		var differences []*jsondiff.Difference
		for range 12 {
			for range random.Intn(4) {
				all := partsOf(object)
				edit(random, all[random.Intn(len(all))])
			}
			switch random.Intn(12) {
			case 0: // as a plugin may that decodes what a webhook has sent
				object = object.DeepCopy()
			case 1: // as conversions do
				shallow := *object
				object = &shallow
			case 2: // more than are followed one by one
				for _, l := range leavesOf(object) {
					l.change()
				}
			}
			differences = append(differences, memory.Since(object))
			states = append(states, object.DeepCopy())
			if memory.Since(object) != nil {
				t.Fatalf("seed %d: changed at once", seed)
			}
		}
		runtime.GC()
		memory.Forget()
		for _, i := range random.Perm(len(differences)) {
			want, err := jsondiff.Of(states[i], states[i+1])
			if err != nil {
				t.Fatal(err)
			}
			got, err := operationsOf(differences[i].Patch())
			if err != nil || encode(t, got) != encode(t, want) {
				for k := range min(len(got), len(want)) {
					if one, other := encode(t, got[k:k+1]), encode(t, want[k:k+1]); one != other {
						t.Errorf("the first that is another: %.500s, want %.500s", one, other)
						break
					}
				}
				t.Fatalf("seed %d, change %d: %v, %d operations, want %d", seed, i, err, len(got), len(want))
			}
		}
	}
}

// A large amount that stays is no change, though it points to its number, and a copy of it doesn't.
func TestFollowLargeAmounts(t *testing.T) {
	object := &corev1.Pod{Spec: corev1.PodSpec{Overhead: corev1.ResourceList{
		"cpu": resource.MustParse("1234567890123456789012345.5")}}}
	memory := jsondiff.Remember(object)
	defer memory.Forget()
	if memory.Since(object) != nil {
		t.Error("changed")
	}
	amount := object.Spec.Overhead["cpu"]
	amount.AsDec().UnscaledBig().SetInt64(1)
	operations, err := operationsOf(memory.Since(object).Patch())
	if err != nil || len(operations) != 1 {
		t.Errorf("changed in place: got %v, %v", operations, err)
	}
	other := &struct{ Amount resource.Quantity }{resource.MustParse("1234567890123456789012345.5")}
	memory = jsondiff.Remember(other)
	defer memory.Forget()
	other.Amount.AsDec().UnscaledBig().SetInt64(0)
	if memory.Since(other) == nil || memory.Since(other) != nil {
		t.Error("an amount that has become 0 isn't changed once")
	}
}

// Of an object that has become another the difference is an error.
func TestFollowAnotherType(t *testing.T) {
	var nothing *corev1.Pod
	for _, states := range [][2]any{{&corev1.Pod{}, &corev1.Node{}}, {&corev1.Pod{}, map[string]any{}},
		{map[string]any{}, &corev1.Pod{}}, {&corev1.Pod{}, nothing}} {
		memory := jsondiff.Remember(states[0])
		if operations, err := operationsOf(memory.Since(states[1]).Patch()); err == nil || operations != nil {
			t.Errorf("%T, then %T: got %v, %v", states[0], states[1], operations, err)
		}
		memory.Forget()
	}
}

// However often all of an object becomes another one, to follow it takes no more.
func TestFollowWhatIsReplaced(t *testing.T) {
	object := randomPod(1)
	memory := jsondiff.Remember(object)
	defer memory.Forget()
	var first, later int
	for i := range 20 {
		object = object.DeepCopy()
		for _, l := range leavesOf(object) {
			l.change()
		}
		size := memory.Since(object).Size()
		if i == 1 {
			first = size
		}
		later = size
	}
	if first == 0 || later > first+first/2 {
		t.Errorf("a change took %d bytes, later %d", first, later)
	}
}

// embedded has a type for a part that isn't exported, whose fields are.
type embedded struct {
	inner
	X int
}

type inner struct{ Texts []string }

func TestFollowEmbedded(t *testing.T) {
	object := &embedded{inner{[]string{"a"}}, 1}
	memory := jsondiff.Remember(object)
	object.Texts[0] = "b"
	if got, want := told(t, memory, object), `[{"op":"replace","path":"/Texts/0","value":"b"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

type linked struct {
	To    *linked `json:",omitempty"`
	Value int
}

// What a list has got behind what it had isn't taken for what was remembered behind that.
func TestFollowGrowingList(t *testing.T) {
	last := &linked{Value: 1}
	object := &struct{ All []*linked }{[]*linked{{To: last}}}
	memory := jsondiff.Remember(object)
	object.All = append(object.All, last)
	grown := memory.Since(object)
	last.Value = 2
	if got, want := told(t, memory, object), `[{"op":"replace","path":"/All/0/To/Value","value":2},`+
		`{"op":"replace","path":"/All/1/Value","value":2}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	operations, err := operationsOf(grown.Patch())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := encode(t, operations), `[{"op":"add","path":"/All/1","value":{"Value":1}}]`; got != want {
		t.Errorf("before that: got %s, want %s", got, want)
	}
}

// What an object has more than the one whose place it takes is followed all the way down.
func TestFollowAnotherObjectThatHasMore(t *testing.T) {
	object := pod()
	memory := jsondiff.Remember(object)
	object = object.DeepCopy()
	object.Spec.Containers = append(object.Spec.Containers, corev1.Container{Name: "more",
		SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}})
	more := memory.Since(object)
	object.Spec.Containers[2].SecurityContext.Capabilities.Drop[0] = "KILL"
	if got, want := told(t, memory, object), `[{"op":"replace",`+
		`"path":"/spec/containers/2/securityContext/capabilities/drop/0","value":"KILL"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	operations, err := operationsOf(more.Patch())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := encode(t, operations), `[{"op":"add","path":"/spec/containers/2","value":{"name":"more",`+
		`"resources":{},"securityContext":{"capabilities":{"drop":["ALL"]}}}}]`; got != want {
		t.Errorf("before that: got %s, want %s", got, want)
	}
}

// What is gone is no part of the object any more, nor what it leads to.
func TestFollowWhatIsGone(t *testing.T) {
	last := &linked{Value: 1}
	object := &linked{To: &linked{To: last}}
	memory := jsondiff.Remember(object)
	defer memory.Forget()
	object.To = nil
	if memory.Since(object) == nil {
		t.Error("it went, and nothing has changed")
	}
	last.Value = 2
	if operations, err := operationsOf(memory.Since(object).Patch()); len(operations) > 0 || err != nil {
		t.Errorf("got %v, %v", operations, err)
	}
	last.Value = 3
	if memory.Since(object) != nil {
		t.Error("it has changed once it was gone")
	}
}

// partsOf are the pointers, lists, maps and texts in an object.
func partsOf(object any) (all []reflect.Value) {
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Addr().Interface().(type) {
		case *resource.Quantity, *metav1.Time, *metav1.FieldsV1, *json.RawMessage:
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			all = append(all, v)
			if !v.IsNil() {
				visit(v.Elem())
			}
		case reflect.Slice:
			all = append(all, v)
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Map, reflect.String:
			all = append(all, v)
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					visit(v.Field(i))
				}
			}
		}
	}
	visit(reflect.ValueOf(object).Elem())
	return all
}

// edit does something to a part that plugins do.
func edit(random *rand.Rand, v reflect.Value) {
	one := random.Intn(6)
	switch {
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case one == 0:
		v.SetZero()
	case v.Kind() == reflect.Pointer && v.IsNil():
		v.Set(reflect.New(v.Type().Elem()))
	case v.Kind() == reflect.Pointer: // of the same
		other := reflect.New(v.Type().Elem())
		other.Elem().Set(v.Elem())
		v.Set(other)
	case v.Kind() == reflect.Map && v.IsNil():
		v.Set(reflect.MakeMap(v.Type()))
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			if one == 1 {
				v.SetMapIndex(key, reflect.Value{})
			} else {
				v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
			}
			return
		}
	case v.Len() == 0 || one == 1:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case one == 2: // twice the same, which share what they point to
		v.Set(reflect.Append(v, v.Index(0)))
	case one == 3:
		v.Set(v.Slice(0, v.Len()-1))
	case one == 4: // in front
		front := reflect.MakeSlice(v.Type(), 1, v.Len()+1)
		v.Set(reflect.AppendSlice(front, v))
	default:
		reflect.Swapper(v.Interface())(0, v.Len()-1)
	}
}
