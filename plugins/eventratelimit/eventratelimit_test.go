// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package eventratelimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	authentication "k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"

// limits makes a configuration of limits, each "Type qps burst cacheSize" of which the last may be
// missing.
func limits(all ...string) string {
	config := head + "limits:\n"
	for _, text := range all {
		var kind string
		var qps, burst, cacheSize int
		fmt.Sscan(text, &kind, &qps, &burst, &cacheSize)
		config += fmt.Sprintf("- {type: %s, qps: %d, burst: %d, cacheSize: %d}\n", kind, qps, burst, cacheSize)
	}
	return config
}

// eventIn makes an event in a namespace.
func eventIn(namespace string) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}}
}

// about makes an event that a component tells about a pod.
func about(component, pod string) *corev1.Event {
	e := eventIn("ns")
	e.Source.Component, e.InvolvedObject.Name = component, pod
	return e
}

// The cases of TestEventRateLimiting in
// k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/admission_test.go, in the order in which
// requests come. "ok" and "429" are what comes of each.
func TestLimits(t *testing.T) {
	type request struct {
		plugintest.Request
		after time.Duration
		want  string
	}
	ok := func(r plugintest.Request) request { return request{r, 0, "ok"} }
	refused := func(r plugintest.Request) request { return request{r, 0, "429"} }
	later := func(after time.Duration, r request) request { return request{r.Request, after, r.want} }
	a, b := plugintest.Create(eventIn("a")), plugintest.Create(eventIn("b"))
	pod := plugintest.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}})
	for name, test := range map[string]struct {
		config   string
		requests []request
	}{
		"as many as the burst": {limits("Server 1 3"), []request{ok(a), ok(b), ok(a)}},
		"one more":             {limits("Server 1 3"), []request{ok(a), ok(b), ok(a), refused(a), refused(b)}},
		"a token a second": {limits("Server 1 3"),
			[]request{ok(a), ok(a), ok(a), refused(a), later(time.Second, ok(a)), refused(a)}},
		"some tokens later": {limits("Server 10 3"),
			[]request{ok(a), ok(a), ok(a), refused(a), later(200*time.Millisecond, ok(a)), ok(a), refused(a)}},
		"never more than the burst": {limits("Server 10 3"),
			[]request{ok(a), later(time.Hour, ok(a)), ok(a), ok(a), refused(a)}},
		"what is refused is free": {limits("Server 1 1"),
			[]request{ok(a), later(900*time.Millisecond, refused(a)), later(100*time.Millisecond, ok(a))}},
		"other resources": {limits("Server 1 1"), []request{ok(a), ok(pod), ok(pod), refused(a)}},
		"dry runs": {limits("Server 1 1"),
			[]request{ok(a.AsDryRun()), ok(a.AsDryRun()), ok(a), refused(a), ok(a.AsDryRun())}},
		"updates": {limits("Server 1 2"),
			[]request{ok(a), ok(plugintest.Update(eventIn("a"), eventIn("a"))),
				refused(plugintest.Update(eventIn("a"), eventIn("a")))}},
		"deletions": {limits("Server 1 1"), []request{ok(a), ok(plugintest.Delete(eventIn("a")))}},
		"namespaces": {limits("Namespace 1 2"),
			[]request{ok(a), ok(b), ok(a), refused(a), ok(b), refused(b)}},
		"users": {limits("User 1 2"),
			[]request{ok(a.By("x")), ok(b.By("x")), ok(a.By("y")), refused(a.By("x")), ok(a.By("y"))}},
		"no user": {limits("User 1 1"),
			[]request{ok(func() plugintest.Request { r := a; r.User = nil; return r }()), ok(a.By("x"))}},
		"two of one type": {limits("Server 1 5", "Server 100 2"),
			[]request{ok(a), ok(a), refused(a), later(20*time.Millisecond, ok(a)), ok(a),
				later(time.Millisecond, refused(a))}},
		"a cache of one namespace": {limits("Namespace 1 1 1"),
			[]request{ok(a), refused(a), ok(b), ok(a), refused(a), ok(b)}},
		"the least used one goes": {limits("Namespace 1 1 2"),
			[]request{ok(a), ok(b), refused(a), ok(plugintest.Create(eventIn("c"))), refused(a), ok(b)}},
		"the server's is always one": {limits("Server 1 1 100"), []request{ok(a), refused(b)}},
		// Upstream would take a token of each limit but the one that refuses.
		"what one refuses is free at the others": {limits("Namespace 1 1", "Server 1 3"),
			[]request{ok(a), refused(a), refused(a), refused(a), ok(b), ok(plugintest.Create(eventIn("c"))),
				refused(plugintest.Create(eventIn("d")))}},
		"sources and objects": {limits("SourceAndObject 1 1"), []request{
			ok(plugintest.Create(about("kubelet", "p"))), refused(plugintest.Create(about("kubelet", "p"))),
			ok(plugintest.Create(about("kubelet", "q"))), ok(plugintest.Create(about("scheduler", "p"))),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := plugintest.New(t, Descriptor, test.config)
				for i, r := range test.requests {
					time.Sleep(r.after)
					result, got := subject.Validate(t, r.Request), "ok"
					if result.Err != nil {
						got = fmt.Sprint(result.Code())
					}
					if got != r.want {
						t.Errorf("request %d: got %s, want %s", i, got, r.want)
					}
				}
			})
		})
	}
}

func TestRefusal(t *testing.T) {
	event := about("kubelet", "p")
	event.Source.Host = "node-1"
	event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.UID,
		event.InvolvedObject.APIVersion = "Pod", "ns", "7", "v1"
	for name, test := range map[string]struct{ config, want string }{
		"server":    {limits("Server 1 1"), "Too many requests: limit reached on type Server"},
		"namespace": {limits("Namespace 1 1"), "Too many requests: limit reached on type Namespace for key ns"},
		"user":      {limits("User 1 1"), "Too many requests: limit reached on type User for key alice"},
		"source": {limits("SourceAndObject 1 1"),
			"Too many requests: limit reached on type SourceAndObject for key kubelet/node-1/Pod/ns/p/7/v1"},
		"two": {limits("User 1 1", "Server 1 9", "Namespace 1 1"),
			"Too many requests: [limit reached on type User for key alice, limit reached on type Namespace for key " +
				"ns]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := plugintest.New(t, Descriptor, test.config)
				subject.Validate(t, plugintest.Create(event).By("alice")).Admitted(t)
				result := subject.Validate(t, plugintest.Create(event).By("alice")).Refused(t, http.StatusTooManyRequests,
					test.want)
				if seconds, ok := apierrors.SuggestsClientDelay(result.Err); !ok || seconds != 1 {
					t.Errorf("come again after %d s, %t", seconds, ok)
				}
			})
		})
	}
}

// Each field of the key makes another bucket, and no other field does. Upstream joins the fields
// without a separator.
func TestSourceAndObject(t *testing.T) {
	core := func(change func(*corev1.Event)) runtime.Object {
		e := about("kubelet", "p")
		e.Source.Host = "node"
		change(e)
		return e
	}
	same := func(*corev1.Event) {}
	newer := func(change func(*eventsv1.Event)) runtime.Object {
		e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"},
			Regarding: corev1.ObjectReference{Name: "p"}}
		change(e)
		return e
	}
	reported := func(e *corev1.Event) {
		e.Source, e.ReportingController, e.ReportingInstance = corev1.EventSource{}, "scheduler", "node"
	}
	for name, test := range map[string]struct {
		first, second runtime.Object
		shared        bool
	}{
		"the same":  {core(same), core(same), true},
		"component": {core(same), core(func(e *corev1.Event) { e.Source.Component = "x" }), false},
		"host":      {core(same), core(func(e *corev1.Event) { e.Source.Host = "x" }), false},
		"kind":      {core(same), core(func(e *corev1.Event) { e.InvolvedObject.Kind = "x" }), false},
		"namespace": {core(same), core(func(e *corev1.Event) { e.InvolvedObject.Namespace = "x" }), false},
		"name":      {core(same), core(func(e *corev1.Event) { e.InvolvedObject.Name = "x" }), false},
		"UID": {core(same), core(func(e *corev1.Event) { e.InvolvedObject.UID = types.UID("x") }),
			false},
		"API version":          {core(same), core(func(e *corev1.Event) { e.InvolvedObject.APIVersion = "x" }), false},
		"field path":           {core(same), core(func(e *corev1.Event) { e.InvolvedObject.FieldPath = "x" }), true},
		"reason":               {core(same), core(func(e *corev1.Event) { e.Reason = "x" }), true},
		"controller, a source": {core(same), core(func(e *corev1.Event) { e.ReportingController = "x" }), true},
		"controller, none": {core(reported),
			core(func(e *corev1.Event) { reported(e); e.ReportingController = "x" }), false},
		"instance, no source": {core(reported), core(func(e *corev1.Event) { reported(e); e.ReportingInstance = "x" }),
			false},
		"fields that run together": {
			core(func(e *corev1.Event) { e.Source.Component, e.Source.Host = "ab", "c" }),
			core(func(e *corev1.Event) { e.Source.Component, e.Source.Host = "a", "bc" }), false,
		},
		"the other API": {core(same), newer(func(e *eventsv1.Event) {
			e.DeprecatedSource = corev1.EventSource{Component: "kubelet", Host: "node"}
		}), true},
		"the other API, reported": {core(reported),
			newer(func(e *eventsv1.Event) { e.ReportingController, e.ReportingInstance = "scheduler", "node" }), true},
		"the other API, about another": {core(reported), newer(func(e *eventsv1.Event) {
			e.ReportingController, e.ReportingInstance, e.Regarding.Name = "scheduler", "node", "q"
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := plugintest.New(t, Descriptor, limits("SourceAndObject 1 1"))
				subject.Validate(t, plugintest.Create(test.first)).Admitted(t)
				if shared := subject.Validate(t, plugintest.Create(test.second)).Err != nil; shared != test.shared {
					t.Errorf("a bucket is shared: %t, want %t", shared, test.shared)
				}
			})
		})
	}

	subject := plugintest.New(t, Descriptor, limits("SourceAndObject 1 1"))
	subject.Validate(t, plugintest.Create(&corev1.Pod{}).On("events", "")).Refused(t, 400,
		"EventRateLimit: the object of a request for events is a *v1.Pod")
}

// An event is converted only if a limit goes by what is in it.
func TestEventsAreNotReadWithoutNeed(t *testing.T) {
	subject := plugintest.New(t, Descriptor, limits("Server 1 9", "Namespace 1 9", "User 1 9"))
	subject.Validate(t, plugintest.Create(&corev1.Pod{}).On("events", "")).Admitted(t)
}

// model is a token bucket in whole numbers: a token is a second's worth of nanoseconds.
type model struct {
	qps, burst, tokens int64
	last               time.Time
}

func (m *model) refill(now time.Time) {
	if m.last.IsZero() || now.Sub(m.last) > time.Duration(m.burst)*time.Second {
		m.tokens = m.burst * int64(time.Second)
	} else {
		m.tokens = min(m.tokens+m.qps*int64(now.Sub(m.last)), m.burst*int64(time.Second))
	}
	m.last = now
}

func (m *model) has() bool { return m.tokens >= int64(time.Second) }

// 10,000 events of 50 users come in bursts, under all four types of limits. At every moment each
// bucket has let through what its rate and burst say, give or take one event.
func TestTenThousandEventsOfFiftyUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := plugintest.New(t, Descriptor,
			limits("Server 60 400", "Namespace 25 120", "User 3 20", "SourceAndObject 1 10"))
		rates := map[string]model{"server": {qps: 60, burst: 400}, "namespace": {qps: 25, burst: 120},
			"user": {qps: 3, burst: 20}, "source": {qps: 1, burst: 10}}
		models, passed, expected := map[string]*model{}, map[string]int{}, map[string]int{}
		admitted := 0
		random := rand.New(rand.NewPCG(6, 1))
		for sent := 0; sent < 10_000; {
			time.Sleep(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
			// One to five users have much to tell at the same moment, or nearly.
			for range 1 + random.IntN(5) {
				who := random.IntN(50)
				event := about(fmt.Sprint("component-", who%7), fmt.Sprint("pod-", random.IntN(3)))
				event.Namespace = fmt.Sprint("ns-", who%5)
				for range 1 + random.IntN(60) {
					if sent++; sent > 10_000 {
						break
					}
					now := time.Now()
					all, take := []string{}, true
					for kind, of := range map[string]string{
						"server": "", "namespace": event.Namespace, "user": fmt.Sprint(who),
						"source": event.Source.Component + "/" + event.InvolvedObject.Name,
					} {
						bucket := kind + " " + of
						if models[bucket] == nil {
							models[bucket] = new(rates[kind])
						}
						models[bucket].refill(now)
						take = take && models[bucket].has()
						all = append(all, bucket)
					}
					got := subject.Validate(t, plugintest.Create(event).By(fmt.Sprint("user-", who))).Err == nil
					if got {
						admitted++
					}
					for _, bucket := range all {
						if take {
							models[bucket].tokens -= int64(time.Second)
							expected[bucket]++
						}
						if got {
							passed[bucket]++
						}
						if d := passed[bucket] - expected[bucket]; d < -1 || d > 1 {
							t.Fatalf("event %d: %s has let %d through, should be %d", sent, bucket, passed[bucket],
								expected[bucket])
						}
					}
					time.Sleep(time.Duration(random.Int64N(int64(time.Millisecond))))
				}
			}
		}
		if admitted < 1000 || admitted > 9000 {
			t.Errorf("%d of 10,000 were admitted: that tests little", admitted)
		}
		t.Logf("%d of 10,000 events, %d buckets", admitted, len(models))
	})
}

// Time stands still in the bubble while requests come at once from many sides: exactly the burst
// gets through.
func TestConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := plugintest.New(t, Descriptor,
			limits("User 1 10", "Server 1 155")).Built.(plugin.Validator)
		var byUser [20]atomic.Int32
		var all sync.WaitGroup
		for i := range 20 * 50 {
			all.Go(func() {
				a := attributes(eventIn("ns"), fmt.Sprint("user-", i%20))
				if subject.Validate(t.Context(), a, nil) == nil {
					byUser[i%20].Add(1)
				}
			})
		}
		all.Wait()
		total := int32(0)
		for i := range byUser {
			if n := byUser[i].Load(); n > 10 {
				t.Errorf("user %d: %d events", i, n)
			} else {
				total += n
			}
		}
		if total != 155 {
			t.Errorf("%d events, want 155", total)
		}
	})
}

// However many keys there are, and however long: a limit has no more than cacheSize buckets, and
// keeps nothing of the keys.
func TestMemoryIsBounded(t *testing.T) {
	built := plugintest.New(t, Descriptor, limits("SourceAndObject 1 1 100", "User 1 1")).Built.(*eventRateLimit)
	long := strings.Repeat("x", 10_000)
	for i := range 20_000 {
		a := attributes(about(fmt.Sprint(long, i), "p"), fmt.Sprint("user-", i))
		if err := built.Validate(t.Context(), a, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{100, 4096} {
		b := built.limits[i].buckets
		if len(b.byHash) != want || b.used.Len() != want {
			t.Errorf("%s: %d buckets in the map, %d in the list, want %d", built.limits[i].scope, len(b.byHash),
				b.used.Len(), want)
		}
	}
}

// attributes are those of a request to create an event, as the API server makes them.
func attributes(event *corev1.Event, who string) admission.Attributes {
	return admission.NewAttributesRecord(event, nil, corev1.SchemeGroupVersion.WithKind("Event"), event.Namespace,
		event.Name,
		corev1.SchemeGroupVersion.WithResource("events"), "", admission.Create, nil, false,
		&authentication.DefaultInfo{Name: who})
}

func TestAdmittingAllocatesNothing(t *testing.T) {
	built := plugintest.New(t, Descriptor, limits("Server 1000000 1000000", "Namespace 1000000 1000000",
		"User 1000000 1000000", "SourceAndObject 1000000 1000000")).Built.(*eventRateLimit)
	a := attributes(about("kubelet", "p"), "alice")
	if n := testing.AllocsPerRun(1000, func() {
		if err := built.Validate(t.Context(), a, nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkValidate(b *testing.B) {
	const plenty = " 2000000000 2000000000 4096"
	all := limits("Server"+plenty, "Namespace"+plenty, "User"+plenty, "SourceAndObject"+plenty)
	for name, test := range map[string]struct {
		config string
		keys   int
	}{
		"one limit":                 {limits("Server" + plenty), 1},
		"four limits":               {all, 1},
		"four limits, 4,000 keys":   {all, 4000},
		"four limits, 100,000 keys": {all, 100_000}, // almost each one drops a bucket of each cache
		"four limits, refused": {limits("Server 1 1", "Namespace"+plenty, "User"+plenty, "SourceAndObject"+plenty),
			1},
	} {
		b.Run(name, func(b *testing.B) {
			built := plugintest.New(b, Descriptor, test.config).Built.(*eventRateLimit)
			requests := make([]admission.Attributes, test.keys)
			for i := range requests {
				event := about("kubelet", fmt.Sprint("pod-", i))
				event.Namespace = fmt.Sprint("ns-", i)
				requests[i] = attributes(event, fmt.Sprint("user-", i))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = built.Validate(b.Context(), requests[i%len(requests)], nil)
			}
		})
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("kubelet", "node", "p", "kubelet", "node", "p")
	f.Add("a", "bc", "", "ab", "c", "")
	f.Add("", "", "", "", "", "")
	f.Add("\xff", "", "", "", "\xff", "")
	b := newBuckets(1, 1, 10)
	f.Fuzz(func(t *testing.T, component, host, pod, component2, host2, pod2 string) {
		of := func(component, host, pod string) key {
			e := about(component, pod)
			e.Source.Host = host
			k, err := keyOf(e)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		first, second := of(component, host, pod), of(component2, host2, pod2)
		if same := b.hash(first) == b.hash(second); same != (first == second) {
			t.Errorf("%q and %q: the same %t", first, second, same)
		}
	})
}
