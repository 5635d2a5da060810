// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/plugin"
)

func TestMutatedObject(t *testing.T) {
	// in place, but with nothing that differs in the end
	thereAndBack := func(a admission.Attributes) error {
		labels := a.GetObject().(*examplev1.Pod).Labels
		labels["x"] = "y"
		delete(labels, "x")
		return nil
	}
	unset := func(a admission.Attributes) error {
		a.GetObject().(*examplev1.Pod).Spec.NodeSelector = nil
		return nil
	}
	for name, test := range map[string]struct {
		plugins                 []func(admission.Attributes) error
		labels                  map[string]string
		selector                map[string]string
		toVersioned, toInternal int32
		err                     string
	}{
		"nobody looks": {plugins: []func(admission.Attributes) error{idle, idle}},
		"two look": {plugins: []func(admission.Attributes) error{look, look}, toVersioned: 1,
			toInternal: 1},
		"nothing differs": {plugins: []func(admission.Attributes) error{thereAndBack}, toVersioned: 1,
			toInternal: 1},
		"one changes": {plugins: []func(admission.Attributes) error{look, label("x", "1"), look},
			labels: map[string]string{"app": "web", "x": "1"}, toVersioned: 1, toInternal: 1},
		"two change": {plugins: []func(admission.Attributes) error{label("x", "1"), label("y", "2")},
			labels: map[string]string{"app": "web", "x": "1", "y": "2"}, toVersioned: 1, toInternal: 1},
		"one removes": {plugins: []func(admission.Attributes) error{unset}, selector: map[string]string{},
			toVersioned: 1, toInternal: 1},
		"refused after changes": {plugins: []func(admission.Attributes) error{unset, refuse, label("y", "2")},
			toVersioned: 1, err: `pods.example.apiserver.k8s.io "web" is forbidden: no`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, o := newPod(), newInterfaces()
			a := create(pod)
			err := newChain(t, mutators(test.plugins...)).Admit(context.Background(), a, o)
			wantError(t, err, test.err)
			o.wantConversions(t, test.toVersioned, test.toInternal)
			if a.GetObject() != runtime.Object(pod) {
				t.Error("the server's object is another one now")
			}
			want := newPod()
			if test.labels != nil {
				want.Labels = test.labels
			}
			if test.selector != nil {
				want.Spec.NodeSelector = nil
			}
			if !reflect.DeepEqual(pod, want) {
				t.Errorf("the server's object is\n\t%+v\nwant\n\t%+v", pod, want)
			}
		})
	}
}

func TestPluginsSeeVersionedObjects(t *testing.T) {
	pod, old := newPod(), newPod()
	old.Labels["app"] = "old"
	see := func(a admission.Attributes) error {
		object, ok := a.GetObject().(*examplev1.Pod)
		if !ok || object.Labels["app"] != "web" || object.GroupVersionKind() != podKind {
			t.Errorf("object is %#v", a.GetObject())
		}
		oldObject, ok := a.GetOldObject().(*examplev1.Pod)
		if !ok || oldObject.Labels["app"] != "old" || oldObject.GroupVersionKind() != podKind {
			t.Errorf("old object is %#v", a.GetOldObject())
		}
		if a.GetKind() != podKind || a.GetName() != "web" || a.GetUserInfo().GetName() != "jane" ||
			a.GetOperation() != admission.Update {
			t.Errorf("attributes are not the request's: %v %v", a.GetKind(), a.GetName())
		}
		return nil
	}
	c := newChain(t,
		append(mutators(see, see), described("v", fake{validate: see}), described("w", fake{validate: see})))
	o := newInterfaces()
	if err := c.Admit(context.Background(), update(pod, old), o); err != nil {
		t.Error(err)
	}
	o.wantConversions(t, 2, 1)
	if err := c.Validate(context.Background(), update(pod, old), o); err != nil {
		t.Error(err)
	}
	o.wantConversions(t, 4, 1)
}

func TestValidatingPhaseIsNotWrittenBack(t *testing.T) {
	pod, o := newPod(), newInterfaces()
	c := newChain(t, validators(func(a admission.Attributes) error {
		a.GetObject().(*examplev1.Pod).Spec.ServiceAccountName = "changed"
		return nil
	}))
	if err := c.Validate(context.Background(), create(pod), o); err != nil {
		t.Error(err)
	}
	o.wantConversions(t, 1, 0)
	if pod.Spec.ServiceAccountName != "default" {
		t.Error("a validating plugin changed the server's object")
	}
}

func TestNoObject(t *testing.T) {
	see := func(a admission.Attributes) error {
		if a.GetObject() != nil {
			t.Errorf("object is %v, want none", a.GetObject())
		}
		if _, ok := a.GetOldObject().(*examplev1.Pod); !ok {
			t.Errorf("old object is %#v", a.GetOldObject())
		}
		return nil
	}
	a := admission.NewAttributesRecord(nil, newPod(), podKind, "shop", "web", pods, "", admission.Delete,
		&metav1.DeleteOptions{}, false, nil)
	c := newChain(t, []plugin.Descriptor{described("p", fake{admit: see, validate: see})}, plugin.Observe{Want: plugin.Wants{Changes: true}})
	if err := c.Admit(context.Background(), a, newInterfaces()); err != nil {
		t.Error(err)
	}
	if err := c.Validate(context.Background(), a, newInterfaces()); err != nil {
		t.Error(err)
	}
}

// unregistered is a type the server's scheme doesn't know.
type unregistered struct{ examplev1.Pod }

func (u *unregistered) DeepCopyObject() runtime.Object { c := *u; return &c }

func TestObjectsWithoutAnotherForm(t *testing.T) {
	custom := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "stable.example.com/v1",
		"kind": "CronTab"}}
	for name, object := range map[string]runtime.Object{
		"custom resource":   custom,
		"versioned already": &examplev1.Pod{},
		"unknown type":      &unregistered{},
	} {
		t.Run(name, func(t *testing.T) {
			var seen, validated runtime.Object
			c := newChain(t, []plugin.Descriptor{described("p", fake{
				admit: func(a admission.Attributes) error {
					seen = a.GetObject()
					seen.(metav1.Object).SetName("changed")
					return nil
				},
				validate: func(a admission.Attributes) error { validated = a.GetObject(); return nil },
			})})
			o := newInterfaces()
			if err := c.Admit(context.Background(), create(object), o); err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(context.Background(), create(object), o); err != nil {
				t.Fatal(err)
			}
			if seen != object || validated != object {
				t.Error("plugins saw another object")
			}
			if name := object.(metav1.Object).GetName(); name != "changed" {
				t.Errorf("name is %q", name)
			}
			o.wantConversions(t, 0, 0)
		})
	}
}

func TestObjectOfAnotherKind(t *testing.T) {
	for name, test := range map[string]struct {
		object runtime.Object
		kind   schema.GroupVersionKind
		seen   runtime.Object
		err    string
	}{
		"another kind of the group": {&example.Pod{}, examplev1.SchemeGroupVersion.WithKind("Binding"),
			&examplev1.Pod{}, ""},
		"a kind of another group": {&example.Pod{},
			schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "PodOptions"}, &examplev1.Pod{}, ""},
		"a versioned kind, another group": {&examplev1.Pod{},
			schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "PodOptions"}, &examplev1.Pod{}, ""},
		"a version that isn't there": {&example.Pod{},
			schema.GroupVersionKind{Group: example.GroupName, Version: "v7", Kind: "Pod"}, nil,
			`Internal error occurred: showing example.apiserver.k8s.io/v7, Kind=Pod to admission plugins: no kind ` +
				`"Pod" is registered for version "example.apiserver.k8s.io/v7" in scheme "` + scheme.Name() + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			var seen runtime.Object
			c := newChain(t, validators(func(a admission.Attributes) error { seen = a.GetObject(); return nil }))
			wantError(t, c.Validate(context.Background(), createAs(test.object, test.kind), newInterfaces()), test.err)
			if reflect.TypeOf(seen) != reflect.TypeOf(test.seen) {
				t.Errorf("plugins saw a %T, want a %T", seen, test.seen)
			}
		})
	}
}

func TestFailedConversion(t *testing.T) {
	for name, test := range map[string]struct {
		failTo runtime.Object
		admit  func(admission.Attributes) error
		err    string
	}{
		"the plugin admits": {&examplev1.Pod{}, look,
			"Internal error occurred: showing example.apiserver.k8s.io/v1, Kind=Pod to admission plugins: " +
				"conversion is broken"},
		"the plugin refuses": {&examplev1.Pod{}, func(a admission.Attributes) error { a.GetObject(); return refuse(a) },
			"Internal error occurred: showing example.apiserver.k8s.io/v1, Kind=Pod to admission plugins: " +
				"conversion is broken"},
		"the plugin panics": {&examplev1.Pod{}, label("x", "1"),
			"Internal error occurred: showing example.apiserver.k8s.io/v1, Kind=Pod to admission plugins: " +
				"conversion is broken"},
		"back": {&example.Pod{}, func(a admission.Attributes) error {
			a.GetObject().(*examplev1.Pod).Spec.ServiceAccountName = "changed"
			return nil
		},
			"Internal error occurred: converting example.apiserver.k8s.io/v1, Kind=Pod back after admission plugins " +
				"changed it: conversion is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			captureLog(t)
			pod, o := newPod(), newInterfaces()
			o.failTo = test.failTo
			err := newChain(t, mutators(test.admit)).Admit(context.Background(), create(pod), o)
			wantError(t, err, test.err)
			if !apierrors.IsInternalError(err) {
				t.Errorf("error is a %T", err)
			}
			if pod.Spec.ServiceAccountName != "default" {
				t.Errorf("the server's object is %+v", pod)
			}
		})
	}
}

func TestFailedConversionWhileValidating(t *testing.T) {
	o := newInterfaces()
	o.failTo = &examplev1.Pod{}
	c := newChain(t, validators(look))
	wantError(t, c.Validate(context.Background(), create(newPod()), o),
		"Internal error occurred: showing example.apiserver.k8s.io/v1, Kind=Pod to admission plugins: conversion is "+
			"broken")
	c = newChain(t, validators(func(a admission.Attributes) error { a.GetOldObject(); return nil }))
	wantError(t, c.Validate(context.Background(), update(newPod(), newPod()), o),
		"Internal error occurred: showing example.apiserver.k8s.io/v1, Kind=Pod to admission plugins: conversion is "+
			"broken")
}

func TestInternalPlugins(t *testing.T) {
	pod := newPod()
	internal := func(a admission.Attributes) error {
		object, ok := a.GetObject().(*example.Pod)
		if !ok || object != pod {
			return errors.New("not the server's object")
		}
		if object.Labels["x"] != "1" {
			return errors.New("what plugins before it changed isn't there")
		}
		object.Labels["internal"] = "yes"
		return nil
	}
	after := func(a admission.Attributes) error {
		if a.GetObject().(*examplev1.Pod).Labels["internal"] != "yes" {
			return errors.New("what the internal plugin changed isn't there")
		}
		return label("z", "3")(a)
	}
	list := mutators(label("x", "1"), internal, idle, after)
	list[1].Server.Internal = true
	list = append(list, described("v", fake{validate: internal}))
	list[4].Server.Internal = true
	o := newInterfaces()
	c := newChain(t, list)
	if err := c.Admit(context.Background(), create(pod), o); err != nil {
		t.Fatal(err)
	}
	o.wantConversions(t, 2, 2)
	if want := map[string]string{"app": "web", "x": "1", "internal": "yes", "z": "3"}; !reflect.DeepEqual(pod.Labels,
		want) {
		t.Errorf("labels are %v, want %v", pod.Labels, want)
	}
	if err := c.Validate(context.Background(), create(pod), o); err != nil {
		t.Fatal(err)
	}
	o.wantConversions(t, 2, 2)
}

func TestFailedConversionForInternalPlugin(t *testing.T) {
	list := mutators(label("x", "1"), func(admission.Attributes) error { t.Error("was called"); return nil })
	list[1].Server.Internal = true
	o := newInterfaces()
	o.failTo = &example.Pod{}
	wantError(t, newChain(t, list).Admit(context.Background(), create(newPod()), o),
		"Internal error occurred: converting example.apiserver.k8s.io/v1, Kind=Pod back after admission plugins "+
			"changed it: conversion is broken")
}

// Plugins call webhooks in parallel, and each of these calls may be the first to look.
func TestConcurrentLooks(t *testing.T) {
	parallel := func(a admission.Attributes) error {
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				if a.GetObject() == nil || a.GetOldObject() == nil {
					t.Error("no object")
				}
				if err := a.AddAnnotation("example.com/key", "value"); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		return nil
	}
	c := newChain(t, []plugin.Descriptor{described("p", fake{admit: parallel, validate: parallel})},
		plugin.Observe{Want: plugin.Wants{Changes: true}})
	o := newInterfaces()
	a := update(newPod(), newPod())
	if err := c.Admit(context.Background(), a, o); err != nil {
		t.Error(err)
	}
	if err := c.Validate(context.Background(), a, o); err != nil {
		t.Error(err)
	}
	o.wantConversions(t, 4, 1)
}

type warnings struct{ got []string }

func (w *warnings) AddWarning(_, text string) { w.got = append(w.got, text) }

// contextPlugin is a plugin that uses its context.
type contextPlugin struct{ fake }

func (contextPlugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	warning.AddWarning(ctx, "", "careful")
	return a.AddAnnotation("example.com/level", "baseline")
}

func TestAnnotationsAndWarnings(t *testing.T) {
	d := described("p", contextPlugin{})
	d.Phases = plugin.Validating
	w := &warnings{}
	ctx := warning.WithWarningRecorder(audit.WithAuditContext(context.Background()), w)
	event := audit.AuditContextFrom(ctx)
	if err := event.Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	// WithAudit is what the server's handlers put around the chain.
	audited := admission.WithAudit(newChain(t, []plugin.Descriptor{d})).(plugin.Validator)
	if err := audited.Validate(ctx, create(newPod()), newInterfaces()); err != nil {
		t.Fatal(err)
	}
	if got, _ := event.GetEventAnnotation("example.com/level"); got != "baseline" {
		t.Errorf("audit annotation is %q", got)
	}
	if want := []string{"careful"}; !reflect.DeepEqual(w.got, want) {
		t.Errorf("warnings are %q, want %q", w.got, want)
	}
}
