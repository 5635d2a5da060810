// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/component-base/metrics/testutil"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// newOne returns a record of a class, with a message of so many bytes.
func newOne(name string, class class, size int) *record {
	r := &record{}
	d := &r.decision
	d.Namespace, d.Name, d.Verdict, d.Code = "shop", name, v1alpha1.Admitted, 200
	d.Message = strings.Repeat("x", size)
	d.Request.Namespace, d.Request.Resource, d.Request.Name = "shop", "pods", name
	d.Request.User.Username = "alice"
	if class == refused {
		d.Verdict, d.Code, d.By = v1alpha1.Refused, 403, "ResourceQuota"
	}
	r.complete()
	r.class = class
	return r
}

// byUser is newOne for a request of another user.
func byUser(user, name string, class class, size int) *record {
	r := newOne(name, class, size)
	r.decision.Request.User.Username = user
	return r
}

// count returns how many decisions of each class there are, and how many bytes all of them take.
func (s *Store) count() (n [classes]int, bytes int64) {
	for _, e := range s.byName {
		n[e.class]++
		bytes += int64(e.size)
	}
	return n, bytes
}

// A flood of one class takes what is free, and leaves the others their share.
func TestBounds(t *testing.T) {
	one := int64(newOne("0000", refused, 2000).size)
	for name, test := range map[string]struct {
		maxCount int
		maxBytes int64
		size     int
		want     [classes]int // when each class has flooded, in order
	}{
		"count":         {100, 1 << 30, 10, [classes]int{20, 30, 50}},
		"bytes":         {1 << 20, 100 * one * 8 / 7, 2000, [classes]int{20, 30, 50}},
		"nothing":       {0, 1 << 30, 10, [classes]int{}},
		"all too large": {100, 100, 2000, [classes]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore("server", test.maxCount, test.maxBytes)
			near := func(got, want int) bool { return got >= want-1 && got <= want+1 }
			for c := range classes {
				for i := range 1000 {
					s.add(newOne(fmt.Sprintf("%d%03d", c, i), c, test.size))
					if _, bytes := s.count(); len(s.byName) > test.maxCount ||
						s.bytes+s.history.bytes > test.maxBytes || bytes != s.bytes ||
						len(s.order) > len(s.byName)+len(s.byName)/8+65 {
						t.Fatalf("%d of class %d: %d bytes, counted %d, %d in order", i, c, bytes, s.bytes,
							len(s.order))
					}
				}
				if n, _ := s.count(); c == plain && !near(n[plain], 5*test.want[plain]) {
					t.Errorf("alone there are %v", n)
				}
			}
			n, _ := s.count()
			for c := range classes {
				if !near(n[c], test.want[c]) {
					t.Errorf("after floods of all there are %v, want %v", n, test.want)
				}
			}
			// Another flood of plain ones changes nothing for the others.
			for i := range 1000 {
				s.add(newOne(fmt.Sprintf("again%03d", i), plain, test.size-1))
			}
			if n, _ := s.count(); n[changed] < test.want[changed]-1 || n[refused] < test.want[refused]-1 {
				t.Errorf("after another flood there are %v", n)
			}
			all := listed(t, s, Filter{})
			if !slices.IsSortedFunc(all, func(a, b v1alpha1.Decision) int {
				return strings.Compare(a.ResourceVersion, b.ResourceVersion)
			}) {
				t.Error("they aren't in order")
			}
		})
	}
}

// A user who floods a class can't push out what others have in it.
func TestSharesOfUsers(t *testing.T) {
	s := NewStore("server", 100, 1<<30)
	for i := range 20 {
		s.add(byUser("bob", fmt.Sprintf("bob%d", i), refused, 10))
	}
	for i := range 1000 {
		s.add(byUser("mallory", fmt.Sprintf("mallory%d", i), refused, 1000))
	}
	bobs := listed(t, s, Filter{Fields: fields.ParseSelectorOrDie("request.user.username=bob")})
	if len(bobs) != 20 || len(s.byName) != 100 {
		t.Errorf("of %d decisions bob has %d, want 20 of 100", len(s.byName), len(bobs))
	}
	// Later requests of bob are kept, too, until both have as many.
	for i := range 100 {
		s.add(byUser("bob", fmt.Sprintf("more%d", i), refused, 1000))
	}
	bobs = listed(t, s, Filter{Fields: fields.ParseSelectorOrDie("request.user.username=bob")})
	if len(bobs) < 49 || len(bobs) > 51 {
		t.Errorf("bob has %d of 100, want 50", len(bobs))
	}
}

// Pages hold what a list without a limit holds, each in its turn.
func TestPages(t *testing.T) {
	s := NewStore("server", 10, 1<<20)
	for i := range 10 {
		r := newOne(fmt.Sprint(i), plain, 1)
		if i%2 == 0 {
			r.decision.Namespace = "other"
		}
		s.add(r)
	}
	var names []string
	token, pages, revision := "", 0, ""
	for {
		list, err := s.List(Filter{Namespace: "shop"}, 2, token)
		if err != nil {
			t.Fatal(err)
		}
		if pages++; pages == 1 {
			revision = list.ResourceVersion
			s.add(newOne("late", plain, 1)) // which takes the place of 0
		}
		if len(list.Items) > 2 || list.ResourceVersion != revision {
			t.Errorf("page %d has %d decisions of revision %s", pages, len(list.Items), list.ResourceVersion)
		}
		for _, d := range list.Items {
			names = append(names, d.Name)
		}
		if token = list.Continue; token == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "1 3 5 7 9 late" || pages != 3 {
		t.Errorf("%d pages: %s", pages, got)
	}
	if _, err := s.List(Filter{}, 2, "x"); !apierrors.IsBadRequest(err) {
		t.Errorf("of a wrong token: %v", err)
	}
}

// Fields that a client chooses are cut, so that no decision is large.
func TestCutRequest(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	r := v1alpha1.Request{Name: long, Namespace: long, GenerateName: long, Subresource: long, Resource: long,
		UserAgent: long, Owner: &v1alpha1.Owner{Kind: long, Name: long},
		User: v1alpha1.User{Username: long, Groups: slices.Repeat([]string{long}, 1000)}}
	cutRequest(&r)
	if text := encoded(r); len(text) > 120<<10 || !strings.HasSuffix(r.Name, "é…") ||
		!strings.HasSuffix(r.UserAgent, "é…") ||
		r.User.Groups[maxGroups] != "…" {
		t.Errorf("it has %d bytes: %.1000s", len(text), text)
	}
	d := &v1alpha1.Decision{}
	for range maxSteps {
		d.Steps = append(d.Steps, v1alpha1.Step{Plugin: "A", Message: strings.Repeat("x", maxMessage),
			Patch: []v1alpha1.PatchOperation{{Op: "add"}}, Calls: make([]v1alpha1.Call, 3)})
	}
	shorten(d)
	if text := encoded(d); len(text) > maxDecision || !d.Steps[0].PatchCut || d.Steps[0].OmittedCalls != 3 {
		t.Errorf("it has %d bytes: %.1000s", len(text), text)
	}
}

// What can be selected, and how.
func TestListAndGet(t *testing.T) {
	s := newStore()
	s.add(newOne("one", plain, 1))
	s.add(newOne("two", refused, 1))
	other := newOne("three", changed, 1)
	other.decision.Namespace, other.decision.Request.User.Username = "other", "bob"
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
		list, err := s.List(test.filter, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		revision := list.ResourceVersion
		var names []string
		for _, d := range list.Items {
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
		if errs := validation.IsDNS1123Subdomain(r.decision.Name); len(errs) > 0 {
			t.Errorf("%q is called %q: %v", id, r.decision.Name, errs)
		}
		d := s.Get("shop", r.decision.Name)
		if d == nil {
			t.Fatalf("%q isn't there", r.decision.Name)
		}
		if told := d.Annotations[v1alpha1.AuditIDAnnotation]; r.decision.Name != id && told != id {
			t.Errorf("of %q it says %q", id, told)
		}
	}
	if all := listed(t, s, Filter{}); len(all) != 8 {
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
				e.decision.Namespace = test.filter.Namespace
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
	s := NewStore("server", 1, 64<<20)
	before := revisionString(s.revision)
	for i := range maxDeletions + 10 {
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
		since := revisionString(s.revision)
		for i := range maxDeletions {
			s.add(newOne(fmt.Sprint(i), plain, 1))
		}
		w, err := s.Watch(Filter{}, since, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxDeletions {
			gone, came := <-w.ResultChan(), <-w.ResultChan()
			if name := came.Object.(*v1alpha1.Decision).Name; gone.Type != watch.Deleted || name != fmt.Sprint(i) {
				t.Fatalf("%s, and %s came", gone.Type, name)
			}
		}
		w.Stop()
	}
}

// The watch of a client that doesn't read holds no memory, keeps nobody waiting, and ends once it
// can't be told all that has changed.
func TestSlowWatcher(t *testing.T) {
	s := NewStore("server", 10, 1<<20)
	w, err := s.Watch(Filter{}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	before, err := testutil.GetCounterMetricValue(droppedWatchersTotal)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxDeletions {
		s.add(newOne(fmt.Sprint(i), plain, 1))
	}
	n := 0
	for range w.ResultChan() {
		n++
	}
	after, err := testutil.GetCounterMetricValue(droppedWatchersTotal)
	if n > maxEvents+1 || err != nil || after != before+1 {
		t.Errorf("it was told of %d, and %v watches were dropped, %v", n, after-before, err)
	}
	reading, err := s.Watch(Filter{Namespace: "other"}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	last := newOne("last", plain, 1)
	last.decision.Namespace = "other"
	s.add(last)
	if got := told(t, reading, 1); got != "+last" {
		t.Errorf("the other was told %s", got)
	}
	reading.Stop()
}

// A watcher takes few bytes at a time, so that one that doesn't read keeps little of what the store has dropped.
func TestSlowWatcherOfLargeDecisions(t *testing.T) {
	s := NewStore("server", 1000, 64<<20)
	w, beside := &watcher{store: s}, &watcher{store: s}
	for i := range 20 {
		s.add(newOne(fmt.Sprint(i), plain, maxDecision/2))
		if events := s.next(beside); len(events) != 1 {
			t.Errorf("a watcher that reads gets %d events", len(events))
		}
	}
	told := 0
	for events := s.next(w); len(events) > 0; events = s.next(w) {
		bytes := 0
		for _, e := range events {
			bytes += e.of.size
		}
		if told += len(events); bytes > maxEventBytes {
			t.Errorf("it takes %d bytes in %d events", bytes, len(events))
		}
	}
	if told != 20 {
		t.Errorf("it was told of %d of 20", told)
	}
}

// Classes tell what is worth being kept from what is not.
func TestClasses(t *testing.T) {
	decided := func(verdict v1alpha1.Verdict, reason metav1.StatusReason, by string, steps ...step) *record {
		return &record{decision: v1alpha1.Decision{Verdict: verdict, Reason: reason, By: by}, steps: steps}
	}
	admitted, called := step{verdict: plugin.Admitted}, step{verdict: plugin.Admitted}
	called.details = &details{calls: make([]v1alpha1.Call, 1)}
	patched := decided(v1alpha1.Admitted, "", "", admitted, admitted)
	patched.changes = make([]change, 1)
	for name, test := range map[string]struct {
		record *record
		want   class
	}{
		"admitted":          {decided(v1alpha1.Admitted, "", "", admitted), plain},
		"changed":           {patched, changed},
		"called":            {decided(v1alpha1.Admitted, "", "", called), changed},
		"refused":           {decided(v1alpha1.Refused, metav1.StatusReasonForbidden, "x"), refused},
		"failed":            {decided(v1alpha1.Failed, "", ""), refused},
		"invalid":           {decided(v1alpha1.Refused, metav1.StatusReasonInvalid, ""), refused},
		"conflict":          {decided(v1alpha1.Refused, metav1.StatusReasonConflict, ""), plain},
		"gone":              {decided(v1alpha1.Refused, metav1.StatusReasonNotFound, ""), plain},
		"gone for a plugin": {decided(v1alpha1.Refused, metav1.StatusReasonNotFound, "x"), refused},
	} {
		if got := test.record.classify(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
