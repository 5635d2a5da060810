// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package uninitialized

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"gatehouse.dev/removed/apis/initializers"
)

// below is a store of one object, whose watch goes wrong as a test says.
type below struct {
	storage.Interface
	object  *corev1.Pod // nil where there is none
	watches []func(resourceVersion string, w *watch.RaceFreeFakeWatcher) error
	deleted []storage.Preconditions
}

func (b *below) Create(_ context.Context, _ string, object, created runtime.Object, _ uint64) error {
	b.object = object.(*corev1.Pod).DeepCopy()
	if created != nil {
		b.object.DeepCopyInto(created.(*corev1.Pod))
	}
	return nil
}

func (b *below) Get(_ context.Context, key string, opts storage.GetOptions, object runtime.Object) error {
	if b.object == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	b.object.DeepCopyInto(object.(*corev1.Pod))
	return nil
}

func (b *below) GuaranteedUpdate(_ context.Context, key string, object runtime.Object, ignoreNotFound bool,
	_ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	existing, response := &corev1.Pod{}, storage.ResponseMeta{}
	if b.object != nil {
		existing, response.ResourceVersion = b.object.DeepCopy(), 1
	} else if !ignoreNotFound {
		return storage.NewKeyNotFoundError(key, 0)
	}
	updated, _, err := update(existing, response)
	if err != nil {
		return err
	}
	return b.Create(context.Background(), key, updated, object, 0)
}

func (b *below) Delete(_ context.Context, key string, _ runtime.Object, preconditions *storage.Preconditions,
	_ storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	if b.object == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	b.object, b.deleted = nil, append(b.deleted, *preconditions)
	return nil
}

func (b *below) Watch(_ context.Context, _ string, opts storage.ListOptions) (watch.Interface, error) {
	w := watch.NewRaceFreeFake()
	if len(b.watches) == 0 {
		return w, nil // on which nothing happens
	}
	next := b.watches[0]
	b.watches = b.watches[1:]
	return w, next(opts.ResourceVersion, w)
}

func newStore(b *below) *store {
	return &store{b, corev1.Resource("pods"), func() runtime.Object { return &corev1.Pod{} }, DefaultTimeout}
}

func with(r *request) context.Context {
	return context.WithValue(context.Background(), contextKey{}, r)
}

func version(pod *corev1.Pod, resourceVersion string) *corev1.Pod {
	pod.ResourceVersion = resourceVersion
	return pod
}

// A creation that waits ends with the object, an error or another answer. Time is the bubble's.
func TestWaiting(t *testing.T) {
	failed := newPod("a",
		map[string]string{initializers.PendingAnnotation: "a.example.com", initializers.ErrorAnnotation: "not here"})
	type step = func(string, *watch.RaceFreeFakeWatcher) error
	var b *below
	event := func(action func(w *watch.RaceFreeFakeWatcher)) step {
		return func(_ string, w *watch.RaceFreeFakeWatcher) error {
			action(w)
			return nil
		}
	}
	for name, test := range map[string]struct {
		watches []step
		version string // that the creator gets
		err     string
		answer  string
		after   time.Duration
	}{
		"initialized": {
			watches: []step{event(func(w *watch.RaceFreeFakeWatcher) {
				w.Action(watch.Bookmark, newPod("", nil))
				w.Modify(version(newPod("a", waiting("b.example.com")), "2"))
				w.Modify(version(newPod("a", nil), "3"))
			})},
			version: "3",
		},
		"failed": {watches: []step{event(func(w *watch.RaceFreeFakeWatcher) { w.Modify(failed) })},
			err: `pods "a" is forbidden: not here`},
		"failed, and seen deleted": {watches: []step{event(func(w *watch.RaceFreeFakeWatcher) { w.Delete(failed) })},
			err: `pods "a" is forbidden: not here`},
		"deleted": {
			watches: []step{event(func(w *watch.RaceFreeFakeWatcher) {
				w.Delete(newPod("a",
					waiting("a.example.com")))
			})},
			answer: "Internal error occurred: object deleted while waiting for creation", version: "1",
		},
		"nothing happens": {answer: "Timeout: server has timed out waiting for the initialization of pods a",
			version: "1", after: 30 * time.Second},
		"no watch for a while": {
			watches: []step{
				func(string, *watch.RaceFreeFakeWatcher) error { return errors.New("not yet") },
				event(func(w *watch.RaceFreeFakeWatcher) { w.Modify(version(newPod("a", nil), "2")) }),
			},
			version: "2", after: watchRetry,
		},
		"initialized while the watch is broken": {
			watches: []step{event(func(w *watch.RaceFreeFakeWatcher) {
				w.Error(&metav1.Status{Status: metav1.StatusFailure, Message: "expired"})
				b.object = version(newPod("a", nil), "2")
			})},
			version: "2", after: watchRetry,
		},
		"one further while the watch is broken": {
			watches: []step{
				event(func(w *watch.RaceFreeFakeWatcher) {
					w.Stop()
					b.object = version(newPod("a", waiting("b.example.com")), "2")
				}),
				func(from string, w *watch.RaceFreeFakeWatcher) error {
					if from != "2" {
						t.Errorf("watches from %s, not from what it has seen", from)
					}
					w.Modify(version(newPod("a", nil), "3"))
					return nil
				},
			},
			version: "3", after: watchRetry,
		},
		"deleted while the watch is broken": {
			watches: []step{event(func(w *watch.RaceFreeFakeWatcher) { w.Stop(); b.object = nil })},
			answer:  "Internal error occurred: object deleted while waiting for creation", version: "1",
			after: watchRetry,
		},
		"another while the watch is broken": {
			watches: []step{event(func(w *watch.RaceFreeFakeWatcher) {
				w.Stop()
				b.object = newPod("a", nil)
				b.object.UID = "2"
			})},
			answer: "Internal error occurred: object deleted while waiting for creation", version: "1",
			after: watchRetry,
		},
	} {
		for _, how := range []string{"create", "update"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					b = &below{watches: test.watches}
					s, r, object := newStore(b), &request{wait: true}, newPod("a", waiting("a.example.com"))
					created := &corev1.Pod{}
					var err error
					if how == "create" {
						err = s.Create(with(r), "/pods/a", object, created, 0)
					} else {
						err = s.GuaranteedUpdate(with(r), "/pods/a", created, true, nil,
							func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
								return object, nil, nil
							}, nil)
					}
					if got := text(err); got != test.err {
						t.Errorf("error %q, want %q", got, test.err)
					}
					if test.version != "" && created.ResourceVersion != test.version {
						t.Errorf("the creator gets version %s, want %s", created.ResourceVersion, test.version)
					}
					var answer string
					if got := r.answer.Load(); got != nil {
						answer = got.Error()
					}
					if answer != test.answer {
						t.Errorf("the answer is %q, want %q", answer, test.answer)
					}
					if passed := time.Since(start); passed != test.after {
						t.Errorf("after %s, want %s", passed, test.after)
					}
				})
			})
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A request that ends doesn't leave anything waiting.
func TestRequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &request{wait: true}
		ctx, cancel := context.WithTimeout(with(r), time.Second)
		defer cancel()
		start := time.Now()
		if err := newStore(&below{}).Create(ctx, "/pods/a", newPod("a", waiting("a.example.com")), &corev1.Pod{},
			0); err != nil {
			t.Error(err)
		}
		if passed := time.Since(start); passed != time.Second {
			t.Errorf("after %s", passed)
		}
	})
}

// Requests that see all objects, calls without a request and creations of objects that aren't hidden don't
// wait.
func TestNotWaiting(t *testing.T) {
	for name, test := range map[string]struct {
		r    *request
		list string
	}{
		"who asks for all":     {all, "a.example.com"},
		"without request":      {nil, "a.example.com"},
		"of what doesn't wait": {&request{wait: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if err := newStore(&below{}).Create(with(test.r), "/pods/a", newPod("a", waiting(test.list)),
					&corev1.Pod{}, 0); err != nil {
					t.Error(err)
				}
				if passed := time.Since(start); passed != 0 {
					t.Errorf("waits for %s", passed)
				}
			})
		})
	}
}

// An update that dooms a hidden object is stored and then removes it. Every other update is only
// stored.
func TestDiscards(t *testing.T) {
	deleting := newPod("a", waiting("a.example.com"))
	deleting.DeletionTimestamp, deleting.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/hold"}
	visible := deleting.DeepCopy()
	visible.Annotations = nil
	for name, test := range map[string]struct {
		updated *corev1.Pod
		gone    bool
	}{
		"an error": {newPod("a", map[string]string{initializers.PendingAnnotation: "a.example.com",
			initializers.ErrorAnnotation: "no"}), true},
		"a deletion":             {deleting, true},
		"a deletion of another":  {visible, false},
		"a list that is shorter": {newPod("a", waiting("b.example.com")), false},
		"the end of the list":    {newPod("a", nil), false},
	} {
		for who, r := range map[string]*request{"a deletion's": all, "an update's": {wait: true}} {
			t.Run(name+", "+who, func(t *testing.T) {
				b := &below{object: newPod("a", waiting("a.example.com"))}
				updated := &corev1.Pod{}
				err := newStore(b).GuaranteedUpdate(with(r), "/pods/a", updated, true, nil,
					func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
						return test.updated, nil, nil
					}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if gone := b.object == nil; gone != test.gone || test.gone &&
					(len(b.deleted) != 1 || *b.deleted[0].UID != "1") {
					t.Errorf("gone: %t, by %v", gone, b.deleted)
				}
			})
		}
	}
}

// Get shows hidden objects to those who may see them.
func TestGet(t *testing.T) {
	for name, test := range map[string]struct {
		r      *request
		list   string
		ignore bool
		found  bool
		err    bool
	}{
		"hidden":                      {nil, "a.example.com", false, false, true},
		"hidden, or nothing":          {nil, "a.example.com", true, false, false},
		"hidden, to who asks for all": {all, "a.example.com", false, true, false},
		"hidden, to who writes it":    {&request{wait: true}, "a.example.com", false, true, false},
		"not hidden":                  {nil, "", false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := &corev1.Pod{}
			err := newStore(&below{object: newPod("a", waiting(test.list))}).Get(with(test.r), "/pods/a",
				storage.GetOptions{IgnoreNotFound: test.ignore}, got)
			if storage.IsNotFound(err) != test.err || (err != nil) != test.err || (got.Name == "a") != test.found {
				t.Errorf("got %q, %v", got.Name, err)
			}
		})
	}
}
