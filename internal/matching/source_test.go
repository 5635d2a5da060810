// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func aPolicy(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

type policies = []*admissionregistrationv1.ValidatingAdmissionPolicy

func TestCollection(t *testing.T) {
	var compilations []string
	c := NewCollection(func(p *admissionregistrationv1.ValidatingAdmissionPolicy, static bool, before string) string {
		name := p.Name
		if static {
			name = "static " + name
		}
		compilations = append(compilations, before+">"+name+p.ResourceVersion)
		return name + p.ResourceVersion
	})
	a, b, z := aPolicy("a"), aPolicy("b"), aPolicy("z")
	changed := aPolicy("b")
	changed.ResourceVersion = "2"
	for i, step := range []struct {
		files, api         policies
		want, compilations []string
	}{
		{nil, nil, nil, nil},
		{policies{z}, policies{b, a}, []string{"static z", "a", "b"}, []string{">static z", ">a", ">b"}},
		{policies{z}, policies{a, b}, []string{"static z", "a", "b"}, nil},
		{policies{z}, policies{a, changed}, []string{"static z", "a", "b2"}, []string{"b>b2"}},
		{policies{z, a}, policies{a}, []string{"static a", "static z", "a"}, []string{">static a"}},
		{nil, policies{b}, []string{"b"}, []string{">b"}},
	} {
		compilations = nil
		if got := c.Refresh(step.files, step.api); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
		if !slices.Equal(compilations, step.compilations) {
			t.Errorf("step %d compiled %q, want %q", i, compilations, step.compilations)
		}
	}
}

// There is a snapshot from the start. It is replaced when an informer has something new, and kept
// if nothing has changed.
func TestSource(t *testing.T) {
	client := fake.NewClientset(aPolicy("a"))
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Admissionregistration().V1().ValidatingAdmissionPolicies()
	builds := make(chan struct{}, 100)
	var last policies
	source := NewSource(func() *policies {
		defer func() { builds <- struct{}{} }()
		found, err := informer.Lister().List(labels.Everything())
		if err != nil {
			t.Error(err)
		}
		if last != nil && slices.Equal(found, last) {
			return nil
		}
		last = append(policies{}, found...)
		return &found
	})
	if n := len(*source.Current()); n != 0 {
		t.Errorf("before the informer runs there are %d", n)
	}
	if err := source.Follow(admissionregistrationv1.Resource("validatingadmissionpolicies"),
		informer.Informer()); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		source.Run(done)
		close(ended)
	}()
	select {
	case <-source.Synced():
		t.Error("synced before the informer runs")
	default:
	}
	factory.Start(done)
	<-source.Synced()
	if n := len(*source.Current()); n != 1 {
		t.Errorf("when synced there are %d", n)
	}
	kept := source.Current()
	for len(builds) > 0 {
		<-builds
	}
	source.Notify()
	<-builds
	if source.Current() != kept {
		t.Error("the same is another snapshot")
	}
	close(done)
	<-ended
	factory.Shutdown()
}

// However fast changes come, it is a tenth of the time at most that snapshots are being made, and
// the last change is in one; a change that comes alone is in one at once.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			takes  = 10 * time.Millisecond
			during = 10 * time.Second
		)
		var state, builds atomic.Int64
		source := NewSource(func() *int64 {
			seen := state.Load()
			builds.Add(1)
			time.Sleep(takes)
			return &seen
		})
		done := make(chan struct{})
		defer close(done)
		go source.Run(done)
		builds.Store(0)
		for begin := time.Now(); time.Since(begin) < during; time.Sleep(time.Millisecond) {
			state.Add(1)
			source.Notify()
			synctest.Wait()
		}
		if most := int64(during/takes/10) + 1; builds.Load() > most {
			t.Errorf("%d snapshots were made in %v, more than %d", builds.Load(), during, most)
		}
		time.Sleep(10 * takes)
		synctest.Wait()
		if got := *source.Current(); got != state.Load() {
			t.Errorf("the last snapshot is of change %d, not of the last, %d", got, state.Load())
		}
		time.Sleep(maxRest)
		state.Add(1)
		source.Notify()
		time.Sleep(takes)
		synctest.Wait()
		if got := *source.Current(); got != state.Load() {
			t.Errorf("a change alone isn't in force after %v", takes)
		}
	})
}
