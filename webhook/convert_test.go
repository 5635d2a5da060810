// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// A widget as the server holds it, and in two versions that say the same in other words.
type (
	widget struct {
		metav1.TypeMeta
		metav1.ObjectMeta
		Millimeters int
		Color       string
		Weight      int
	}
	widgetV1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Millimeters       int    `json:"millimeters"`
		Color             string `json:"color,omitempty"`
		Weight            int    `json:"weight,omitempty"` // v2 lacks it
	}
	widgetV2 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Length            string `json:"length"`
		Color             string `json:"color,omitempty"`
	}
)

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}
func (w *widgetV1) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}
func (w *widgetV2) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func widgetKind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}
}

// widgetInterfaces know widgets as an API server does, and v1 and v2 as equivalent.
func widgetInterfaces(t testing.TB) admission.ObjectInterfaces {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(widgetKind(runtime.APIVersionInternal), &widget{})
	scheme.AddKnownTypeWithName(widgetKind("v1"), &widgetV1{})
	scheme.AddKnownTypeWithName(widgetKind("v2"), &widgetV2{})
	add := func(from, to any, f conversion.ConversionFunc) {
		t.Helper()
		if err := scheme.AddConversionFunc(from, to, f); err != nil {
			t.Fatal(err)
		}
	}
	add((*widgetV1)(nil), (*widget)(nil), func(a, b any, _ conversion.Scope) error {
		in, out := a.(*widgetV1), b.(*widget)
		out.ObjectMeta, out.Millimeters, out.Color, out.Weight = in.ObjectMeta, in.Millimeters, in.Color, in.Weight
		return nil
	})
	add((*widget)(nil), (*widgetV1)(nil), func(a, b any, _ conversion.Scope) error {
		in, out := a.(*widget), b.(*widgetV1)
		out.ObjectMeta, out.Millimeters, out.Color, out.Weight = in.ObjectMeta, in.Millimeters, in.Color, in.Weight
		return nil
	})
	add((*widgetV2)(nil), (*widget)(nil), func(a, b any, _ conversion.Scope) error {
		in, out := a.(*widgetV2), b.(*widget)
		out.ObjectMeta, out.Color = in.ObjectMeta, in.Color
		_, err := fmt.Sscanf(in.Length, "%dmm", &out.Millimeters)
		return err
	})
	add((*widget)(nil), (*widgetV2)(nil), func(a, b any, _ conversion.Scope) error {
		in, out := a.(*widget), b.(*widgetV2)
		if in.Millimeters < 0 {
			return errors.New("nothing is shorter than nothing")
		}
		out.ObjectMeta, out.Length, out.Color = in.ObjectMeta, fmt.Sprintf("%dmm", in.Millimeters), in.Color
		return nil
	})
	scheme.AddTypeDefaultingFunc(&widgetV2{}, func(o any) {
		if w := o.(*widgetV2); w.Color == "" {
			w.Color = "gray"
		}
	})
	mapper := runtime.NewEquivalentResourceRegistry()
	mapper.RegisterKindFor(gvr("example.com", "v1", "widgets"), "", widgetKind("v1"))
	mapper.RegisterKindFor(gvr("example.com", "v2", "widgets"), "", widgetKind("v2"))
	return &admission.RuntimeObjectInterfaces{
		ObjectCreater: scheme, ObjectTyper: scheme, ObjectDefaulter: scheme, ObjectConvertor: scheme,
		EquivalentResourceMapper: mapper,
	}
}

// A webhook that asks for v2 is asked about v2 (its conditions see the resource of the request, as
// upstream's do), its patch is applied to v2, and the server's object stays what the request was
// about, with the fields that v2 lacks.
func TestConvertedRequest(t *testing.T) {
	b := newAnswering(t, func(*admissionRequest) *admissionResponse {
		return patchResponse(`[{"op":"replace","path":"/length","value":"12mm"},{"op":"remove","path":"/color"}]`)
	})
	after := newAnswering(t, allowed)
	conditional := when(`object.length == "12mm" && object.color == "gray" && oldObject.length == "5mm" && ` +
		`request.kind.version == "v2" && request.requestKind.version == "v1" && request.resource.version == "v1"`)
	p := newPlugins(t, nil,
		mutatingConfiguration("c",
			aWebhook("1", b.ClientConfig("/"), equivalent, rules(aRule("*", "example.com", "v2", "widgets"))),
			aWebhook("2", after.ClientConfig("/"), equivalent, rules(aRule("*", "example.com", "v2", "widgets")),
				conditional),
			aWebhook("3", after.ClientConfig("/"), rules(aRule("*", "example.com", "v1", "widgets")))))
	o := widgetInterfaces(t)
	w := &widgetV1{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Name: "w"}, Millimeters: 7, Color: "red", Weight: 3}
	old := &widgetV1{TypeMeta: w.TypeMeta, ObjectMeta: w.ObjectMeta, Millimeters: 5}
	oldBefore := old.DeepCopyObject()
	a := newAttributes(update, w, old, of(widgetKind("v1"), "widgets"))
	wantError(t, p.Mutating.Admit(t.Context(), a, o), "")

	r := b.last(t).Request
	if seen := decode[widgetV2](t, r.Object.Raw); seen.APIVersion != "example.com/v2" || seen.Length != "7mm" ||
		seen.Color != "red" || seen.Name != "w" {
		t.Errorf("the webhook was asked about %s", r.Object.Raw)
	}
	if seen := decode[widgetV2](t, r.OldObject.Raw); seen.Length != "5mm" {
		t.Errorf("the old object was %s", r.OldObject.Raw)
	}
	if r.Kind.Version != "v2" || r.Resource.Version != "v2" || r.RequestKind.Version != "v1" ||
		r.RequestResource.Version != "v1" {
		t.Errorf("the webhook was asked %+v", r)
	}
	want := &widgetV1{TypeMeta: w.TypeMeta, ObjectMeta: w.ObjectMeta, Millimeters: 12, Color: "gray", Weight: 3}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("the object is %+v, want %+v", w, want)
	}
	if !reflect.DeepEqual(old, oldBefore) {
		t.Errorf("the old object has become %+v", old)
	}
	if after.Calls() != 2 {
		t.Fatalf("%d of the webhooks after it were called", after.Calls())
	}
	if seen := decode[widgetV2](t, after.questions[0].Request.Object.Raw); seen.Length != "12mm" ||
		seen.Color != "gray" {
		t.Errorf("the second webhook was asked about %+v", seen)
	}
	if seen := decode[widgetV1](t, after.questions[1].Request.Object.Raw); seen.Millimeters != 12 ||
		seen.APIVersion != "example.com/v1" {
		t.Errorf("the third webhook was asked about %+v", seen)
	}
}

// What can't be converted refuses the request and names the webhook.
func TestInconvertible(t *testing.T) {
	b := newAnswering(t, func(*admissionRequest) *admissionResponse {
		return patchResponse(`[{"op":"replace","path":"/length","value":"far"}]`)
	})
	one := aWebhook("1", b.ClientConfig("/"), equivalent, rules(aRule("*", "example.com", "v2", "widgets")))
	p := newPlugins(t, nil, mutatingConfiguration("c", one), validatingConfiguration("c", one))
	o := widgetInterfaces(t)
	w := &widgetV1{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"}, Millimeters: -1}
	const want = `Internal error occurred: webhook "1": unable to convert to example.com/v2, Kind=Widget: nothing ` +
		`is shorter than nothing`
	wantRefusal(t, p.Mutating.Admit(t.Context(), newAttributes(create, w, nil, of(widgetKind("v1"), "widgets")), o),
		500, want)
	wantRefusal(t, p.Validating.Validate(t.Context(), newAttributes(create, w, nil, of(widgetKind("v1"), "widgets")),
		o), 500, want)

	w.Millimeters = 1
	before := w.DeepCopyObject()
	wantRefusal(t, p.Mutating.Admit(t.Context(), newAttributes(create, w, nil, of(widgetKind("v1"), "widgets")), o),
		500,
		`Internal error occurred: admission webhook "1" returned a patch with which the object can't be converted `+
			`from example.com/v2, Kind=Widget to example.com/v1, Kind=Widget: …`)
	if !reflect.DeepEqual(w, before) {
		t.Errorf("the object has become %+v", w)
	}

	unknown := runtime.NewEquivalentResourceRegistry()
	unknown.RegisterKindFor(gvr("example.com", "v2", "widgets"), "", schema.GroupVersionKind{})
	nobodyKnows := &admission.RuntimeObjectInterfaces{EquivalentResourceMapper: unknown}
	wantRefusal(t, p.Validating.Validate(t.Context(), newAttributes(update, w, nil, of(widgetKind("v1"), "widgets")),
		nobodyKnows), 500,
		`Internal error occurred: webhook "1": unable to convert to example.com/v2, Resource=widgets: unknown kind`)
}

// crConvertor does for custom resources what the API server does: it knows the way between
// versions.
type crConvertor struct{ runtime.ObjectConvertor }

func (crConvertor) Convert(in, out, _ any) error {
	from, to := in.(*unstructured.Unstructured).DeepCopy(), out.(*unstructured.Unstructured)
	kind := to.GroupVersionKind()
	to.SetUnstructuredContent(from.Object)
	to.SetGroupVersionKind(kind)
	return nil
}

type crDefaulter struct{}

func (crDefaulter) Default(in runtime.Object) {
	u := in.(*unstructured.Unstructured)
	if _, ok := u.Object["color"]; !ok {
		u.Object["color"] = "gray"
	}
}

func TestCustomResource(t *testing.T) {
	b := newAnswering(t, func(*admissionRequest) *admissionResponse {
		return patchResponse(`[{"op":"replace","path":"/millimeters","value":12},{"op":"remove","path":"/color"}]`)
	})
	p := newPlugins(t, nil, mutatingConfiguration("c",
		aWebhook("1", b.ClientConfig("/"), equivalent, rules(aRule("*", "example.com", "v2", "widgets")))))
	mapper := runtime.NewEquivalentResourceRegistry()
	mapper.RegisterKindFor(gvr("example.com", "v1", "widgets"), "", widgetKind("v1"))
	mapper.RegisterKindFor(gvr("example.com", "v2", "widgets"), "", widgetKind("v2"))
	o := &admission.RuntimeObjectInterfaces{ObjectConvertor: crConvertor{}, ObjectDefaulter: crDefaulter{},
		EquivalentResourceMapper: mapper}
	w := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w"}, "millimeters": int64(7), "color": "red"}}
	a := newAttributes(create, w, nil, of(widgetKind("v1"), "widgets"))
	wantError(t, p.Mutating.Admit(t.Context(), a, o), "")
	if seen := decode[widgetV1](t, b.last(t).Request.Object.Raw); seen.APIVersion != "example.com/v2" ||
		seen.Millimeters != 7 {
		t.Errorf("the webhook was asked about %s", b.last(t).Request.Object.Raw)
	}
	want := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"millimeters": int64(12), "color": "gray"}
	if !reflect.DeepEqual(w.Object, want) {
		t.Errorf("the object is %v", w.Object)
	}
}
