// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

var strict = item(corev1.LimitTypeContainer, "max cpu=100m")

var (
	tooMuch  = plugintest.Create(pod(container("c", "cpu=1", "cpu=1")))
	tooMuch1 = wrong("maximum cpu usage per Container is 100m, but limit is 1")
)

// live makes live lists answer something else than the cache holds.
func live(subject *plugintest.Plugin, err error, ranges ...*corev1.LimitRange) {
	subject.Client.PrependReactor("list", "limitranges", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &corev1.LimitRangeList{}
		for _, r := range ranges {
			list.Items = append(list.Items, *r)
		}
		return true, list, err
	})
}

// lists is how many live lists there have been; it begins anew with each call.
func lists(subject *plugintest.Plugin) int {
	n := 0
	for _, call := range subject.Calls() {
		if call == "list limitranges ns/" {
			n++
		}
	}
	subject.Client.ClearActions()
	return n
}

func TestTheCacheDoesWhereItHasAny(t *testing.T) {
	subject := newPlugin(t, limitRange("limits", strict))
	subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
	if calls := subject.Calls(); len(calls) != 0 {
		t.Errorf("calls: %q", calls)
	}
}

func TestNoneIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		for range 3 {
			subject.Admit(t, tooMuch).Admitted(t)
			subject.Validate(t, tooMuch).Admitted(t)
		}
		if calls := subject.Calls(); !slices.Equal(calls, []string{"list limitranges ns/"}) {
			t.Errorf("calls: %q", calls)
		}
		subject.Client.ClearActions()
		time.Sleep(liveMemory)
		subject.Validate(t, tooMuch).Admitted(t)
		if n := lists(subject); n != 0 {
			t.Errorf("%d lists before the time is over", n)
		}
		time.Sleep(time.Millisecond)
		subject.Validate(t, tooMuch).Admitted(t)
		if n := lists(subject); n != 1 {
			t.Errorf("%d lists after the time", n)
		}
	})
}

// Source: upstream's TestLimitRanger_GetLimitRangesFixed22422.
func TestSimultaneousRequestsShareALiveList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		lists := 0
		subject.Client.PrependReactor("list", "limitranges", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			time.Sleep(time.Second)
			return true, &corev1.LimitRangeList{Items: []corev1.LimitRange{*limitRange("limits", strict)}}, nil
		})
		validation := subject.Built.(plugin.Validator)
		for i, namespace := range []string{"ns", "other"} {
			var group sync.WaitGroup
			for range 10 {
				group.Go(func() {
					if err := validation.Validate(t.Context(), create(namespace), nil); err == nil ||
						err.Error() != tooMuch1 {
						t.Errorf("got %v", err)
					}
				})
			}
			group.Wait()
			if lists != i+1 {
				t.Errorf("%d lists, want one for each namespace", lists)
			}
		}
	})
}

func create(namespace string) admission.Attributes {
	return admission.NewAttributesRecord(tooMuch.Object, nil, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
}

// The client that began the list goes; the one that joined it gets the answer.
func TestAClientThatGoesDoesNotTakeOthersAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		subject.Client.PrependReactor("list", "limitranges", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(time.Second)
			return true, &corev1.LimitRangeList{}, nil
		})
		validation := subject.Built.(plugin.Validator)
		gone, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if err := validation.Validate(gone, create("ns"), nil); err == nil ||
				err.Error() != "Timeout: context canceled" {
				t.Errorf("the client that goes: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if err := validation.Validate(t.Context(), create("ns"), nil); err != nil {
				t.Errorf("the client that stays: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
	})
}

func TestFailingListIsARefusal(t *testing.T) {
	subject := newPlugin(t)
	live(subject, errors.New("no leader"))
	subject.Admit(t, tooMuch).Refused(t, 403, `pods "p" is forbidden: no leader`)
	subject.Validate(t, tooMuch).Refused(t, 403, `pods "p" is forbidden: no leader`)
	if n := lists(subject); n != 2 {
		t.Errorf("a failure is remembered: %d lists", n)
	}
}

// The cache of these tests doesn't learn of what is created.
func TestAppliesToTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		subject.Validate(t, tooMuch).Admitted(t) // and so it is remembered that there are none
		created := limitRange("limits", strict)
		subject.Validate(t, plugintest.Create(created)).Admitted(t)
		live(subject, nil, created)
		lists(subject)
		subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
		subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
		if n := lists(subject); n != 2 {
			t.Errorf("%d lists", n)
		}
		time.Sleep(liveMemory + time.Millisecond)
		subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
	})
}

func TestASecondOneAppliesToTheNextRequest(t *testing.T) {
	subject := newPlugin(t, limitRange("loose", item(corev1.LimitTypeContainer, "max cpu=9")))
	subject.Validate(t, tooMuch).Admitted(t)
	live(subject, nil, limitRange("loose", item(corev1.LimitTypeContainer, "max cpu=9")), limitRange("strict", strict))

	for _, request := range []plugintest.Request{
		plugintest.Create(limitRange("strict", strict)).AsDryRun(),
		plugintest.Update(limitRange("strict", strict), limitRange("strict", strict)),
		plugintest.Create(limitRange("loose", strict)), // which exists already
	} {
		subject.Validate(t, request).Admitted(t)
		subject.Validate(t, tooMuch).Admitted(t)
	}
	if n := lists(subject); n != 0 {
		t.Errorf("%d lists, although nothing new is created", n)
	}
	subject.Validate(t, plugintest.Create(limitRange("strict", strict))).Admitted(t)
	subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
}

func TestTheCacheIsBelievedOnceItHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		for _, name := range []string{"a", "b"} {
			r := limitRange(name, strict)
			subject.Validate(t, plugintest.Create(r)).Admitted(t)
			if err := subject.Client.Tracker().Add(r); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
		if n := lists(subject); n != 0 {
			t.Errorf("%d lists", n)
		}
	})
}

// Creations that come to nothing are forgotten one by one, however many more there are: each would
// cost every pod a live list.
func TestACreationThatFailsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		subject.Validate(t, plugintest.Create(limitRange("failed", strict))).Admitted(t)
		time.Sleep(liveMemory * 2 / 3)
		later := limitRange("later", strict)
		subject.Validate(t, plugintest.Create(later)).Admitted(t)
		if err := subject.Client.Tracker().Add(later); err != nil {
			t.Fatal(err)
		}
		time.Sleep(liveMemory / 2)
		subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
		if n := lists(subject); n != 0 {
			t.Errorf("%d lists", n)
		}
	})
}

// Upstream holds on to what a live list found for 30 seconds, even if it has gone.
func TestWhatHasGoneNoLongerApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t)
		live(subject, nil, limitRange("limits", strict))
		subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
		live(subject, nil)
		subject.Validate(t, tooMuch).Admitted(t)
	})
}

func TestGeneratedNamesAreNoticed(t *testing.T) {
	subject := newPlugin(t)
	generated := limitRange("limits-x7f9q", strict)
	request := plugintest.Create(generated)
	request.Name = "" // of the request, which named none
	subject.Validate(t, request).Admitted(t)
	live(subject, nil, generated)
	subject.Validate(t, tooMuch).Refused(t, 403, tooMuch1)
}
