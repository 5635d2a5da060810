// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jsondiff_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"gatehouse.dev/internal/jsondiff"
)

// randomPod has something in most fields of a pod that there are.
func randomPod(seed int64) *corev1.Pod {
	pod := &corev1.Pod{}
	fill(pod, seed)
	return pod
}

func fill(object any, seed int64) {
	randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 2).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1e6), resource.BinarySI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:a":{}}`) },
		func(p *intstr.IntOrString, c randfill.Continue) { *p = intstr.FromInt32(c.Int31()) },
		func(o *runtime.RawExtension, c randfill.Continue) {
			o.Raw = []byte(strconv.Quote(strconv.Itoa(c.Int())))
		},
		func(o *metav1.Duration, c randfill.Continue) { o.Duration = time.Duration(c.Int31()) },
	).Fill(object)
}

// Every field counts, however deep it is.
func TestEveryFieldCounts(t *testing.T) {
	for seed := range int64(2) {
		object := randomPod(seed)
		copied := object.DeepCopy()
		all := leavesOf(object)
		if len(all) < 100 {
			t.Fatalf("a pod of %d fields", len(all))
		}
		for i, l := range all {
			l.change()
			of, err := jsondiff.Compare(copied, object)
			if err != nil || len(of) == 0 {
				t.Errorf("%s: got %v, %v", l.path, of, err)
			}
			if i%20 == 0 { // which takes a while
				applies(t, copied, object, of)
			}
			l.undo()
		}
		for _, unchanged := range []*corev1.Pod{object, copied, object.DeepCopy()} {
			if operations, err := jsondiff.Compare(object, unchanged); err != nil || operations != nil {
				t.Fatalf("unchanged: got %v, %v", operations, err)
			}
		}
	}
}

// leaf is a number or a text somewhere in an object.
type leaf struct {
	path         string
	change, undo func()
}

func leavesOf(object any) (all []leaf) {
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				visit(path, v.Elem())
			}
		case reflect.Struct:
			if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
				one := resource.MustParse("1")
				all = append(all, leaf{path, func() { q.Add(one) }, func() { q.Sub(one) }})
				return
			}
			if at, ok := v.Addr().Interface().(*metav1.Time); ok {
				was := *at
				all = append(all, leaf{path, func() { *at = metav1.Unix(at.Unix()+1, 0) }, func() { *at = was }})
				return
			}
			if port, ok := v.Addr().Interface().(*intstr.IntOrString); ok {
				was := *port
				all = append(all, leaf{path, func() { *port = intstr.FromString(was.String() + "x") },
					func() { *port = was }})
				return
			}
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					visit(path+"."+f.Name, v.Field(i))
				}
			}
		case reflect.Slice:
			if v.Type() == reflect.TypeFor[json.RawMessage]() || path == ".ObjectMeta.ManagedFields" {
				return
			}
			for i := range v.Len() {
				visit(path+"[]", v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				was := v.MapIndex(key)
				all = append(all, leaf{path + "{}", func() { v.SetMapIndex(key, reflect.Value{}) },
					func() { v.SetMapIndex(key, was) }})
			}
		case reflect.String:
			all = append(all, leaf{path, func() { v.SetString(v.String() + "x") },
				func() { v.SetString(v.String()[:v.Len()-1]) }})
		case reflect.Bool:
			all = append(all, leaf{path, func() { v.SetBool(!v.Bool()) }, func() { v.SetBool(!v.Bool()) }})
		case reflect.Int32, reflect.Int64, reflect.Int:
			all = append(all, leaf{path, func() { v.SetInt(v.Int() + 1) }, func() { v.SetInt(v.Int() - 1) }})
		case reflect.Uint8:
			all = append(all, leaf{path, func() { v.SetUint(v.Uint() ^ 1) }, func() { v.SetUint(v.Uint() ^ 1) }})
		}
	}
	visit("", reflect.ValueOf(object).Elem())
	return all
}

// nested is a type that contains itself, which nothing was told of before.
type nested struct {
	Name  string
	Inner *nested
	List  []nested
}

// Requests that are the first to compare objects of a type come at the same time.
func TestFirstComparisonsAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			before := &nested{Name: "a"}
			after := &nested{Name: "a", Inner: &nested{Name: "b"}, List: []nested{{Name: "c"}}}
			if operations, err := jsondiff.Compare(before, after); err != nil || len(operations) != 2 {
				t.Errorf("got %v, %v", operations, err)
			}
		})
	}
	all.Wait()
}

// A change keeps its value, whatever becomes of the object and of what it is compared with.
func TestChangesStayAsTheyAre(t *testing.T) {
	before, after := &corev1.Pod{}, randomPod(1)
	changes, err := jsondiff.Compare(before, after)
	if err != nil || len(changes) < 4 {
		t.Fatalf("got %v, %v", changes, err)
	}
	was := encode(t, changes)
	for _, object := range []any{before, after} {
		for _, l := range leavesOf(object) {
			l.change()
		}
	}
	if got := encode(t, changes); got != was {
		t.Errorf("they have become %s", cmp.Diff(was, got))
	}
}

// What is written is what encoding/json writes, to the byte.
func TestWritten(t *testing.T) {
	for seed := range int64(30) {
		pod := randomPod(seed)
		written(t, pod.ObjectMeta)
		written(t, pod.Spec)
		written(t, pod.Status)
	}
	type (
		named    string
		texts    struct{ A, Both string }
		also     struct{ Both string }
		Pointed  struct{ P string }
		embedded struct {
			texts
			B *int `json:"b,omitempty"`
		}
		shadowed struct {
			texts
			A int
		}
		twice struct {
			texts
			also
		}
		pointing struct {
			*Pointed
			A int
		}
		omitted struct {
			Text    string            `json:",omitempty"`
			Flag    bool              `json:",omitempty"`
			Long    int64             `json:",omitempty"`
			Lists   []string          `json:",omitempty"`
			Texts   map[string]string `json:",omitempty"`
			Pointer *int              `json:",omitempty"`
			Array   [0]int            `json:",omitempty"`
			Any     any               `json:",omitempty"`
			Structs struct{ A []int } `json:",omitempty"`
			hidden  int
		}
	)
	one := 1
	written(t, struct {
		Quoted int `json:",string"`
	}{1})
	written(t, struct {
		Escaped string `json:"<a>&"`
	}{"<\u2029é\"\\"})
	written(t, struct {
		Zero metav1.Time `json:"zero,omitzero"`
	}{metav1.NewTime(time.Time{}.UTC())})
	written(t, struct{ Bytes, Nil []byte }{Bytes: []byte("x")})
	written(t, struct {
		Array   [2]bool
		Lists   [][]*int
		Structs []struct{ A []bool }
	}{Lists: [][]*int{nil, {}, {nil, &one}}, Structs: []struct{ A []bool }{{[]bool{true, false}}, {}}})
	written(t, struct {
		Small    int8
		Unsigned uint8
		Long     int64
		Float    float64
	}{-8, 255, -1 << 60, 1e30})
	written(t, struct {
		Any, Other any
		Anys       map[string]any
		Numbers    map[int]string
		Named      map[named]named
		Interface  fmt.Stringer
	}{Any: []any{1, "<", nil}, Anys: map[string]any{"b": 1, "a": nil}, Numbers: map[int]string{2: "x", 1: "y"},
		Named: map[named]named{"é": "\u2028", "a": "\""}})
	written(t, embedded{texts{"a", "b"}, &one})
	written(t, embedded{})
	written(t, shadowed{texts{"a", "b"}, 1})
	written(t, twice{texts{"a", "b"}, also{"c"}})
	written(t, pointing{&Pointed{"p"}, 1})
	written(t, pointing{})
	written(t, omitted{hidden: 1})
	written(t, omitted{"a", true, 1, []string{""}, map[string]string{"": ""}, &one, [0]int{}, 1,
		struct{ A []int }{[]int{1}}, 1})
	written(t, struct {
		Number  json.Number
		Numbers []json.Number
		Any     any
	}{"5", []json.Number{"", "1e3"}, json.Number("6")})
	written(t, struct {
		Dash  int `json:"-,"`
		Bad   int `json:"a\"b"`
		Fine  int `json:"$ü-1"`
		named `json:"named"`
	}{1, 2, 3, "4"})
}

// written checks what is written of a value that was nowhere.
func written[V any](t *testing.T, value V) {
	t.Helper()
	type holder struct{ V *V }
	operations, err := jsondiff.Compare(&holder{}, &holder{&value})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := encode(t, operations), `[{"op":"replace","path":"/V","value":`+encode(t, value)+`}]`; got != want {
		t.Errorf("%T: -want +got:\n%s", value, cmp.Diff(want, got))
	}
}

// unwritable can't be written as JSON.
type unwritable struct{ Numbers []float64 }

func TestWhatCantBeWritten(t *testing.T) {
	after := &unwritable{Numbers: []float64{math.NaN()}}
	if operations, err := jsondiff.Compare(&unwritable{}, after); err == nil {
		t.Errorf("got %v", operations)
	}
	type itself struct {
		Pointer *itself
		List    []itself
	}
	pointer, list := &itself{}, &itself{List: []itself{{}}}
	pointer.Pointer, list.List[0].List = pointer, list.List
	for _, circle := range []*itself{pointer, list} {
		if operations, err := jsondiff.Compare(&itself{}, circle); err == nil {
			t.Errorf("got %v", operations)
		}
	}
}

// A type that encodes itself may hold what can't be compared by ==.
func TestWhatCantBeCompared(t *testing.T) {
	type holder struct{ V hidden }
	was, now := &holder{hidden{[]int{1}}}, &holder{hidden{[]int{2}}}
	for _, test := range []struct {
		after *holder
		want  int
	}{{now, 1}, {&holder{hidden{[]int{1}}}, 0}} {
		if operations, err := jsondiff.Compare(was, test.after); err != nil || len(operations) != test.want {
			t.Errorf("got %v, %v", operations, err)
		}
	}
}

type hidden struct{ any any }

func (h hidden) MarshalJSON() ([]byte, error) { return json.Marshal(h.any) }
