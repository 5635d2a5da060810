// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// usualPod has two containers, resources, variables and probes.
func usualPod() *corev1.Pod {
	pod := newPod("web")
	list := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}}
	pod.Spec.Containers = nil
	for _, name := range []string{"web", "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name + ":1",
			Resources:      corev1.ResourceRequirements{Requests: list, Limits: list},
			ReadinessProbe: probe, LivenessProbe: probe,
			Env:          []corev1.EnvVar{{Name: "LEVEL", Value: "info"}, {Name: "MODE", Value: "fast"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}})
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	pod.Labels = map[string]string{"app": "web"}
	return pod
}

// usualPlugins are 5 that change the pod, 8 that look at it, and 15 that judge it.
func usualPlugins() []plugin.Descriptor {
	look := func(_ context.Context, a admission.Attributes) error { a.GetObject(); return nil }
	var all []plugin.Descriptor
	for i := range 28 {
		p := decider{validate: look}
		switch {
		case i < 5:
			p = decider{admit: labelling(fmt.Sprintf("label-%d", i), "value")}
		case i < 13:
			p = decider{admit: look}
		}
		all = append(all, p.named(fmt.Sprintf("Plugin%d", i)))
	}
	return all
}

// A request through the chain: observed or not, with an event in the audit log or without.
func BenchmarkRecorder(b *testing.B) {
	interfaces := admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)
	for _, name := range []string{"alone", "recorded", "audited"} {
		b.Run(name, func(b *testing.B) {
			recorded := name != "alone"
			recorder := NewRecorder(NewStore("server", 10_000, 64<<20), ValuesHidden)
			var observers []plugin.Observer
			if recorded {
				observers = append(observers, recorder)
			}
			c, err := chain.New(usualPlugins(), nil, nil, observers...)
			if err != nil {
				b.Fatal(err)
			}
			pod := usualPod()
			info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "pods",
				Namespace: "shop"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				pod.Labels = map[string]string{"app": "web"}
				a := about(admission.Create, pod, nil)
				ctx := audit.WithAuditContext(request.WithRequestInfo(b.Context(), info))
				audit.WithAuditID(ctx, types.UID(fmt.Sprintf("7b3f0a3e-0000-4000-8000-%012d", i)))
				recording := &recording{info: info}
				if name == "audited" {
					audited(b, ctx)
				}
				if recorded {
					ctx = withRecording(ctx, recording)
				}
				if c.Admit(ctx, a, interfaces) != nil || c.Validate(ctx, a, interfaces) != nil {
					b.Fatal("refused")
				}
				if recorded {
					recorder.finish(ctx, recording, http.StatusCreated, nil)
				}
			}
		})
	}
}

// Ten thousand decisions of pods that five plugins have changed take less than 64 MB, however many
// there have been.
func TestMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	store := NewStore("server", 10_000, 64<<20)
	r := newRig(t, store, usualPlugins()...)
	pod := usualPod()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what there is to be used again goes with the second one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var at10k, full uint64 // which is with what it keeps of those that had to go
	for i := range 20_000 {
		r.serve(t.Context(), call{verb: "create", auditID: fmt.Sprintf("7b3f0a3e-0000-4000-8000-%012d", i),
			handler: func(ctx context.Context, w http.ResponseWriter) {
				pod.Name, pod.Labels = fmt.Sprintf("web-%d", i), map[string]string{"app": "web"}
				r.both(ctx, w, about(admission.Create, pod, nil))
			}})
		switch i {
		case 9_999:
			at10k = heap() - before
		case 14_999:
			full = heap() - before
		}
	}
	after := heap() - before
	all := listed(t, store, Filter{})
	t.Logf("%d decisions take %.1f MB, after half as many again %.1f MB, and again %.1f MB; the store says %.1f MB",
		len(store.byName), float64(at10k)/1e6, float64(full)/1e6, float64(after)/1e6,
		float64(store.held())/1e6)
	if len(all) != 10_000 || len(all[0].Steps) != 28 || len(all[0].ChangedBy) != 5 {
		t.Errorf("%d decisions of %d steps", len(all), len(all[0].Steps))
	}
	if at10k > 64e6 || full > at10k+at10k/5 || after > full+full/10 {
		t.Errorf("they take %d bytes, then %d, then %d", at10k, full, after)
	}
	if float64(store.held()) < 0.5*float64(after) {
		t.Errorf("the store counts %d of %d bytes", store.held(), after)
	}
}

// A flood by many clients, with watchers that don't read and others that do, keeps the bounds all
// the while, and leaves nothing that runs.
func TestFlood(t *testing.T) {
	const maxCount, maxBytes = 500, 4 << 20
	store := NewStore("server", maxCount, maxBytes)
	judge := decider{validate: func(_ context.Context, a admission.Attributes) error {
		if a.GetName() == "bad" {
			return admission.NewForbidden(a, errors.New("bad"))
		}
		return nil
	}}
	r := newRig(t, store, append(usualPlugins(), judge.named("Z"))...)
	var unread []watch.Interface // meanwhile
	for range 10 {
		w, err := store.Watch(Filter{}, "", true)
		if err != nil {
			t.Fatal(err)
		}
		unread = append(unread, w)
	}
	clients := make(chan struct{}, 32)
	done := make(chan struct{})
	reading, err := store.Watch(Filter{}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for range reading.ResultChan() {
		}
	}()
	for i := range 6_000 {
		clients <- struct{}{}
		go func() {
			defer func() { <-clients }()
			pod := usualPod()
			if i%3 == 0 {
				pod.Name = "bad"
			}
			r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
				r.both(ctx, w, about(admission.Create, pod, nil))
			}})
			if i%100 == 0 {
				listed(t, store, Filter{Namespace: "shop"})
			}
			store.mu.Lock()
			defer store.mu.Unlock()
			if len(store.byName) > maxCount || store.held() > maxBytes ||
				len(store.deletions) > maxDeletions {
				t.Errorf("%d decisions, %d bytes, %d that have gone", len(store.byName), store.held(),
					len(store.deletions))
			}
		}()
	}
	for range cap(clients) {
		clients <- struct{}{}
	}
	reading.Stop()
	<-done
	n, bytes := store.count()
	if n[refused] < maxCount/3 || bytes != store.bytes {
		t.Errorf("there are %v in %d bytes, of which %d are counted", n, bytes, store.held())
	}
	store.mu.Lock()
	if len(store.watchers) > 0 {
		t.Errorf("%d watchers that don't read are still told", len(store.watchers))
	}
	store.mu.Unlock()
	for _, w := range unread {
		w.Stop()                   // as the server does when their client has gone
		for range w.ResultChan() { // which its goroutine closes at last
		}
	}
}

// Keeping one more decision, where another has to go for it.
func BenchmarkFull(b *testing.B) {
	store := NewStore("server", 10_000, 64<<20)
	message := strings.Repeat("x", 2000)
	add := func(i int) {
		next := newOne(fmt.Sprintf("7b3f0a3e-0000-4000-8000-%012d", i), changed, 0)
		next.decision.Message, next.size = message, len(message)+recordSize
		store.add(next)
	}
	for i := range store.maxCount + maxDeletions {
		add(i)
	}
	b.ReportAllocs()
	for i := store.maxCount + maxDeletions; b.Loop(); i++ {
		add(i)
	}
}

// Listing all that there may be.
func BenchmarkList(b *testing.B) {
	store := NewStore("server", 10_000, 64<<20)
	for i := range 10_000 {
		r := newOne(fmt.Sprint(i), plain, 10)
		store.add(r)
	}
	for b.Loop() {
		listed(b, store, Filter{Namespace: "shop"})
	}
}
