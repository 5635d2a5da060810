package jsondiff_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"gatehouse.dev/chain/jsondiff"
)

// randomPod has something in most fields of a pod that there are.
func randomPod(seed int64) *corev1.Pod {
	pod := &corev1.Pod{}
	randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 2).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1e6), resource.BinarySI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.Raw = []byte(`{"f:a":{}}`) },
		func(p *intstr.IntOrString, c randfill.Continue) { *p = intstr.FromInt32(c.Int31()) },
	).Fill(pod)
	return pod
}

// Sync says what Of says, and makes the one object of the other, whatever they are.
func TestSync(t *testing.T) {
	for seed := range int64(20) {
		was, now := randomPod(2*seed), randomPod(2*seed+1)
		if seed%2 == 0 { // most of what is compared is nearly alike
			now = was.DeepCopy()
			for range 5 {
				all := leavesOf(now)
				all[rand.New(rand.NewSource(seed)).Intn(len(all))].change()
			}
		}
		synced(t, was, now)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"emptied":    func(p *corev1.Pod) { p.Labels = map[string]string{} },
		"taken away": func(p *corev1.Pod) { p.Spec.Tolerations = nil },
		"put in front": func(p *corev1.Pod) {
			p.Spec.Containers = append([]corev1.Container{{Name: "z"}}, p.Spec.Containers...)
		},
		"other places": func(p *corev1.Pod) { c := p.Spec.Containers; c[0], c[1] = c[1], c[0] },
		"in other words": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("0.1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := pod()
			change(now)
			synced(t, pod(), now)
		})
	}
}

func synced(t *testing.T, before, after runtime.Object) {
	t.Helper()
	want, err := jsondiff.Of(before, after)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jsondiff.Sync(before, after)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encode(t, want), encode(t, got)); diff != "" {
		t.Errorf("Sync isn't Of: -want +got:\n%s", diff)
	}
	if !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("after Sync: %s", cmp.Diff(before, after))
	}
}

// Every field counts, however deep it is, and is seen to change in place: a copy that Sync has made
// shares none with the object.
func TestEveryFieldCounts(t *testing.T) {
	for seed := range int64(2) {
		object, copied := randomPod(seed), &corev1.Pod{}
		if _, err := jsondiff.Sync(copied, object); err != nil {
			t.Fatal(err)
		}
		all := leavesOf(object)
		if len(all) < 100 {
			t.Fatalf("a pod of %d fields", len(all))
		}
		for _, l := range all {
			l.change()
			if operations, err := jsondiff.Of(copied, object); err != nil || len(operations) == 0 {
				t.Errorf("%s: got %v, %v", l.path, operations, err)
			}
			l.undo()
		}
		if operations, err := jsondiff.Of(copied, object); err != nil || operations != nil {
			t.Fatalf("unchanged: got %v, %v", operations, err)
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
			if operations, err := jsondiff.Sync(before, after); err != nil || len(operations) != 2 {
				t.Errorf("got %v, %v", operations, err)
			}
			after.Inner.Name = "d"
			if operations, err := jsondiff.Sync(before, after); err != nil || len(operations) != 1 {
				t.Errorf("got %v, %v", operations, err)
			}
		})
	}
	all.Wait()
}

// A change keeps its value, whatever becomes of the object and of what it is compared with.
func TestChangesStayAsTheyAre(t *testing.T) {
	before, after := &corev1.Pod{}, randomPod(1)
	changes, err := jsondiff.Sync(before, after)
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
	check := func(before, after any) {
		t.Helper()
		operations, err := jsondiff.Of(before, after)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(encode(t, after)), &fields); err != nil {
			t.Fatal(err)
		}
		for _, o := range operations {
			name := strings.TrimPrefix(o.Path, "/")
			if value, ok := fields[name]; ok && string(value) != string(o.Value) {
				t.Errorf("%s:\ngot  %s\nwant %s", name, o.Value, value)
			}
			delete(fields, name)
		}
		if len(fields) > 0 {
			t.Errorf("not written: %v", fields)
		}
	}
	for seed := range int64(30) {
		pod := randomPod(seed)
		type holder struct {
			Meta   *metav1.ObjectMeta
			Spec   *corev1.PodSpec
			Status *corev1.PodStatus
		}
		check(&holder{}, &holder{&pod.ObjectMeta, &pod.Spec, &pod.Status})
	}
	type inner struct {
		A string
		B *int `json:"b,omitempty"`
	}
	type named string
	type unusual struct {
		Quoted    int `json:",string"`
		Float     float64
		Bytes     []byte
		Array     [2]bool
		Any       any
		Anys      map[string]any
		Numbers   map[int]string
		Named     map[named]named
		Unsigned  uint8
		Zero      metav1.Time `json:"zero,omitzero"`
		Interface fmt.Stringer
		inner
		Texts  []string
		hidden int
	}
	one := 1
	type holder struct{ U, V *unusual }
	check(&holder{}, &holder{&unusual{}, &unusual{Quoted: 1, Float: 1e30, Bytes: []byte("x"), Any: []any{1, "<", nil},
		Anys: map[string]any{"b": 1, "a": nil}, Numbers: map[int]string{2: "x", 1: "y"},
		Named: map[named]named{"é": "\u2028", "a": "\""}, Unsigned: 255, Texts: []string{}, hidden: 1,
		inner: inner{"a", &one}}})
}

// unwritable can't be written as JSON.
type unwritable struct{ Numbers []float64 }

func TestWhatCantBeWritten(t *testing.T) {
	after := &unwritable{Numbers: []float64{math.NaN()}}
	if operations, err := jsondiff.Of(&unwritable{}, after); err == nil {
		t.Errorf("got %v", operations)
	}
	if operations, err := jsondiff.Sync(&unwritable{}, after); err == nil {
		t.Errorf("got %v", operations)
	}
}
