package decision

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/randfill"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain"
)

// newOne is a record of a class, with a message of so many bytes that aren't any less when they are
// compressed.
func newOne(name string, class class, size int) *record {
	r := &record{namespace: "shop", name: name, class: class, verdict: v1alpha1.Admitted, status: 200,
		message: messageOf(size)}
	r.request.Namespace, r.request.Resource, r.request.Name = "shop", "pods", name
	r.request.User.Username = "alice"
	if class == refused {
		r.verdict, r.status, r.by = v1alpha1.Refused, 403, "ResourceQuota"
	}
	return r
}

func messageOf(size int) string {
	letters := make([]byte, size)
	random := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range letters {
		letters[i] = 'a' + byte(random.IntN(26))
	}
	return string(letters)
}

func (s *Store) count() (n [classes]int, bytes int64) {
	for c := range classes {
		n[c] = s.queues[c].len()
		for i := range n[c] {
			bytes += s.queues[c].size(&s.queues[c].entries[s.queues[c].first+i])
		}
	}
	return n, bytes
}

// A flood of one class takes what is free, and leaves the others their share.
func TestBounds(t *testing.T) {
	one := sizeOf(newOne("name", refused, 2000).pack(&coder{writes: true}))
	for name, test := range map[string]struct {
		maxCount int
		maxBytes int64
		size     int
		want     [classes]int // when each class has flooded, in order
	}{
		"count":         {100, 1 << 30, 10, [classes]int{20, 30, 50}},
		"bytes":         {1 << 20, 100 * one, 2000, [classes]int{20, 30, 50}},
		"nothing":       {0, 1 << 30, 10, [classes]int{}},
		"all too large": {100, 100, 2000, [classes]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore("server", test.maxCount, test.maxBytes)
			for c := range classes {
				for i := range 1000 {
					s.add(newOne(fmt.Sprintf("%d%03d", c, i), c, test.size))
					if n,
						bytes := s.count(); len(s.byName) > test.maxCount || s.bytes() > test.maxBytes ||
						bytes != s.bytes() ||
						n[0]+n[1]+n[2] != len(s.byName) {
						t.Fatalf("%d of class %d: %v, %d bytes, counted %d", i, c, n, bytes, s.bytes())
					}
				}
				if n, _ := s.count(); c == plain && n[plain] != 5*test.want[plain] {
					t.Errorf("alone there are %v", n)
				}
			}
			if n, _ := s.count(); n != test.want {
				t.Errorf("after floods of all there are %v, want %v", n, test.want)
			}
			// Another flood of plain ones changes nothing for the others.
			for i := range 1000 {
				s.add(newOne(fmt.Sprintf("again%03d", i), plain, test.size-1))
			}
			if n, _ := s.count(); n[changed] < test.want[changed]-1 || n[refused] < test.want[refused]-1 {
				t.Errorf("after another flood there are %v", n)
			}
			all, _ := s.List(Filter{})
			if !slices.IsSortedFunc(all, func(a, b v1alpha1.Decision) int {
				return strings.Compare(a.ResourceVersion, b.ResourceVersion)
			}) {
				t.Error("they aren't in order")
			}
		})
	}
}

// What can be selected, and how.
func TestListAndGet(t *testing.T) {
	s := newStore()
	s.add(newOne("one", plain, 1))
	s.add(newOne("two", refused, 1))
	other := newOne("three", changed, 1)
	other.namespace, other.request.User.Username = "other", "bob"
	s.add(other)
	for name, test := range map[string]struct {
		filter Filter
		want   string
	}{
		"all":           {Filter{}, "one two three"},
		"a namespace":   {Filter{Namespace: "shop"}, "one two"},
		"a verdict":     {Filter{Fields: fields.ParseSelectorOrDie("verdict=Refused")}, "two"},
		"not a verdict": {Filter{Fields: fields.ParseSelectorOrDie("verdict!=Refused")}, "one three"},
		"a user":        {Filter{Fields: fields.ParseSelectorOrDie("request.user.username=bob")}, "three"},
		"an object": {Filter{Fields: fields.ParseSelectorOrDie("request.resource=pods,request.name=one")},
			"one"},
		"a plugin": {Filter{Fields: fields.ParseSelectorOrDie("by=ResourceQuota")}, "two"},
		"a name":   {Filter{Fields: fields.ParseSelectorOrDie("metadata.name=three")}, "three"},
		"a name elsewhere": {Filter{Namespace: "shop", Fields: fields.ParseSelectorOrDie("metadata.name=three")},
			""},
		"this server": {Filter{Labels: labels.SelectorFromSet(labels.Set{v1alpha1.ServerLabel: "server"})},
			"one two three"},
		"another server":         {Filter{Labels: labels.SelectorFromSet(labels.Set{v1alpha1.ServerLabel: "x"})}, ""},
		"an operation that none": {Filter{Fields: fields.ParseSelectorOrDie("request.operation=CONNECT")}, ""},
	} {
		all, revision := s.List(test.filter)
		var names []string
		for _, d := range all {
			names = append(names, d.Name)
		}
		if got := strings.Join(names, " "); got != test.want || revision != revisionString(s.revision) {
			t.Errorf("%s: got %q at %s, want %q", name, got, revision, test.want)
		}
	}
	if d := s.Get("shop", "two"); d == nil || d.Name != "two" || d.By != "ResourceQuota" {
		t.Errorf("got %v", d)
	}
	if d := s.Get("other", "two"); d != nil {
		t.Errorf("got %v, which is in another namespace", d)
	}
}

// Clients may send any audit ID, and the same as often as they like.
func TestAuditIDs(t *testing.T) {
	s := newStore()
	for _, id := range []string{"a", "a", "a", "", "../x", "UPPER", strings.Repeat("y", 300), "a b"} {
		r := newOne("", plain, 1)
		r.setName(id)
		s.add(r)
		if errs := validation.IsDNS1123Subdomain(r.name); len(errs) > 0 {
			t.Errorf("%q is called %q: %v", id, r.name, errs)
		}
		d := s.Get("shop", r.name)
		if d == nil {
			t.Fatalf("%q isn't there", r.name)
		}
		if told := d.Annotations[v1alpha1.AuditIDAnnotation]; r.name != id && told != id {
			t.Errorf("of %q it says %q", id, told)
		}
	}
	if all, _ := s.List(Filter{}); len(all) != 8 {
		t.Errorf("there are %d", len(all))
	}
}

// told are the next n events of a watch: + and - with the name, and . for the bookmark.
func told(t *testing.T, w watch.Interface, n int) string {
	t.Helper()
	var got []string
	for range n {
		e, ok := <-w.ResultChan()
		if !ok {
			got = append(got, "end")
			break
		}
		d := e.Object.(*v1alpha1.Decision)
		switch e.Type {
		case watch.Added:
			got = append(got, "+"+d.Name)
		case watch.Deleted:
			got = append(got, "-"+d.Name)
		case watch.Bookmark:
			got = append(got, "."+d.Annotations[metav1.InitialEventsAnnotationKey])
		}
	}
	return strings.Join(got, " ")
}

func TestWatch(t *testing.T) {
	for name, test := range map[string]struct {
		since   string // of which decision, or a revision
		initial bool
		filter  Filter
		want    string // of four decisions in room for three, and a fifth afterwards
	}{
		"from nothing":      {"", false, Filter{}, "+b +c +d -b +e"},
		"from zero":         {"0", false, Filter{}, "+b +c +d -b +e"},
		"with initial ones": {"", true, Filter{}, "+b +c +d .true -b +e"},
		"resumed":           {"c", false, Filter{}, "-a +d -b +e"},
		"resumed early":     {"a", false, Filter{}, "+b +c -a +d -b +e"},
		"of a namespace":    {"a", false, Filter{Namespace: "other"}, "+e"},
		"of a name":         {"a", false, Filter{Fields: fields.ParseSelectorOrDie("metadata.name=b")}, "+b -b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore("server", 3, 1<<20)
			revisions := map[string]string{"": "", "0": "0"}
			for _, name := range []string{"a", "b", "c", "d"} {
				r := newOne(name, plain, 1)
				s.add(r)
				revisions[name] = revisionString(r.revision)
			}
			w, err := s.Watch(test.filter, revisions[test.since], test.initial)
			if err != nil {
				t.Fatal(err)
			}
			e := newOne("e", plain, 1)
			if test.filter.Namespace != "" {
				e.namespace = test.filter.Namespace
			}
			s.add(e)
			if got := told(t, w, len(strings.Fields(test.want))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			w.Stop()
			for range w.ResultChan() { // ends
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.watchers) != 0 {
				t.Error("it is still told")
			}
		})
	}
}

// A revision that is too old, of another process, or none.
func TestWatchFromNowhere(t *testing.T) {
	s := NewStore("server", 1, 1<<20)
	_, before := s.List(Filter{})
	for i := range maxGone + 10 {
		s.add(newOne(fmt.Sprint(i), plain, 1))
	}
	for revision, is := range map[string]func(error) bool{
		before: apierrors.IsResourceExpired, "1": apierrors.IsResourceExpired,
		"9999999999999999999": apierrors.IsResourceExpired, "x": apierrors.IsBadRequest, "-1": apierrors.IsBadRequest,
	} {
		if _, err := s.Watch(Filter{}, revision, false); !is(err) {
			t.Errorf("%s: %v", revision, err)
		}
	}
	for range 3 { // of the last deletions nothing is forgotten
		s.add(newOne("before", plain, 1)) // the ring begins elsewhere each time
		_, since := s.List(Filter{})
		for i := range maxGone {
			s.add(newOne(fmt.Sprint(i), plain, 1))
		}
		w, err := s.Watch(Filter{}, since, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxGone {
			gone, came := <-w.ResultChan(), <-w.ResultChan()
			if name := came.Object.(*v1alpha1.Decision).Name; gone.Type != watch.Deleted || name != fmt.Sprint(i) {
				t.Fatalf("%s, and %s came", gone.Type, name)
			}
		}
		w.Stop()
	}
}

// The watch of a client that doesn't read ends, and keeps nobody waiting.
func TestSlowWatcher(t *testing.T) {
	s := newStore()
	w, err := s.Watch(Filter{}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := s.Watch(Filter{Namespace: "other"}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range watchBuffer + 10 {
		s.add(newOne(fmt.Sprint(i), plain, 1))
	}
	n := 0
	for range w.ResultChan() {
		n++
	}
	if n < watchBuffer || n > watchBuffer+1 {
		t.Errorf("it was told of %d", n)
	}
	last := newOne("last", plain, 1)
	last.namespace = "other"
	s.add(last)
	if got := told(t, reading, 1); got != "+last" {
		t.Errorf("the other was told %s", got)
	}
	reading.Stop()
}

// Classes tell what is worth being kept from what is not.
func TestClasses(t *testing.T) {
	for name, test := range map[string]struct {
		record *record
		want   class
	}{
		"admitted": {&record{verdict: v1alpha1.Admitted, steps: []step{{plugin: "a", phase: chain.Mutating}}}, plain},
		"changed":  {&record{verdict: v1alpha1.Admitted, steps: []step{{more: &more{}}}}, changed},
		"refused":  {&record{verdict: v1alpha1.Refused, reason: metav1.StatusReasonForbidden, by: "x"}, refused},
		"failed":   {&record{verdict: v1alpha1.Failed}, refused},
		"invalid":  {&record{verdict: v1alpha1.Refused, reason: metav1.StatusReasonInvalid}, refused},
		"conflict": {&record{verdict: v1alpha1.Refused, reason: metav1.StatusReasonConflict}, plain},
		"gone":     {&record{verdict: v1alpha1.Refused, reason: metav1.StatusReasonNotFound}, plain},
		"gone for a plugin": {&record{verdict: v1alpha1.Refused, reason: metav1.StatusReasonNotFound, by: "x"},
			refused},
	} {
		if got := test.record.classify(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// What is packed is what is unpacked, to the last field.
func TestPacked(t *testing.T) {
	random := randfill.NewWithSeed(1).NilChance(0.2).NumElements(1, 3).Funcs(
		func(at *time.Time, c randfill.Continue) { *at = time.Unix(0, c.Int63()) },
		func(v *v1alpha1.Value, c randfill.Continue) { v.Raw = []byte(c.String(10)) },
	)
	fill := func(object any) {
		fields := reflect.ValueOf(object).Elem()
		for i := range fields.NumField() {
			f := fields.Field(i)
			random.Fill(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Interface())
		}
	}
	for range 100 {
		r := &record{}
		fill(r)
		for i := range r.steps {
			fill(&r.steps[i])
			if m := r.steps[i].more; m != nil {
				fill(m)
				m.changes = nil // of a record that is settled
			}
		}
		text := r.pack(&coder{writes: true})
		p := packed{revision: r.revision, class: r.class, block: block{text, uint32(len(text))}, end: uint32(len(text))}
		if diff := cmp.Diff(r, new(unpacker).record(p), cmp.AllowUnexported(record{}, step{}, more{}),
			cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}
