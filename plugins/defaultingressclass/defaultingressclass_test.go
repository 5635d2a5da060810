// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultingressclass

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// class makes an IngressClass of this age, in seconds, whose annotation says this of being the
// default one.
func class(name, isDefault string, age int) *networkingv1.IngressClass {
	c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.Unix(1_700_000_000-int64(age), 0),
	}}
	if isDefault != "" {
		c.Annotations = map[string]string{"ingressclass.kubernetes.io/is-default-class": isDefault}
	}
	return c
}

// ingress makes an Ingress that names a class, unless that is "-", and has annotations, unless they
// are nil.
func ingress(class string, annotations map[string]string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i", Annotations: annotations}}
	if class != "-" {
		i.Spec.IngressClassName = &class
	}
	return i
}

func classOf(i *networkingv1.Ingress) string {
	if i.Spec.IngressClassName == nil {
		return "-"
	}
	return *i.Spec.IngressClassName
}

// The cases of TestAdmission in
// k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass/admission_test.go, and some
// more.
func TestCreate(t *testing.T) {
	byAnnotation := map[string]string{"kubernetes.io/ingress.class": "nginx"}
	for name, test := range map[string]struct {
		classes []runtime.Object
		ingress *networkingv1.Ingress
		want    string
	}{
		"no classes":           {nil, ingress("-", nil), "-"},
		"one, not the default": {[]runtime.Object{class("a", "", 0)}, ingress("-", nil), "-"},
		"one, said not to be":  {[]runtime.Object{class("a", "false", 0)}, ingress("-", nil), "-"},
		"one, not said well":   {[]runtime.Object{class("a", "True", 0)}, ingress("-", nil), "-"},
		"one, the default": {[]runtime.Object{class("a", "", 0), class("b", "true", 5)}, ingress("-", nil),
			"b"},
		"named already":       {[]runtime.Object{class("a", "true", 0)}, ingress("b", nil), "b"},
		"named as nothing":    {[]runtime.Object{class("a", "true", 0)}, ingress("", nil), ""},
		"named by annotation": {[]runtime.Object{class("a", "true", 0)}, ingress("-", byAnnotation), "-"},
		"named as nothing by that": {[]runtime.Object{class("a", "true", 0)},
			ingress("-", map[string]string{"kubernetes.io/ingress.class": ""}), "-"},
		"another annotation": {[]runtime.Object{class("a", "true", 0)},
			ingress("-", map[string]string{"a": "b"}), "a"},
		"several, the newest": {[]runtime.Object{class("a", "true", 9), class("b", "true", 7),
			class("c", "true", 8), class("d", "", 1)}, ingress("-", nil), "b"},
		"several of a second, by name": {[]runtime.Object{class("c", "true", 7), class("b", "true", 7),
			class("a", "true", 8)}, ingress("-", nil), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", test.classes...)
			got := classOf(subject.Admit(t, plugintest.Create(test.ingress)).Admitted(t).Object.(*networkingv1.Ingress))
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if calls := subject.Calls(); len(calls) != 0 {
				t.Errorf("the cache should do, but there were calls: %q", calls)
			}
		})
	}
}

// A new default class takes over when the cache shows it.
func TestAnotherDefaultClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := plugintest.New(t, Descriptor, "", class("old", "true", 60))
		if err := subject.Client.Tracker().Add(class("new", "true", 0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := classOf(subject.Admit(t,
			plugintest.Create(ingress("-", nil))).Admitted(t).Object.(*networkingv1.Ingress)); got != "new" {
			t.Errorf("got %q", got)
		}
	})
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", class("a", "true", 0))
	for name, request := range map[string]plugintest.Request{
		"update":          plugintest.Update(ingress("-", nil), ingress("-", nil)),
		"status":          plugintest.Create(ingress("-", nil)).On("ingresses", "status"),
		"other resources": plugintest.Create(ingress("-", nil)).On("others", ""),
		"delete":          plugintest.Delete(ingress("-", nil)),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&networkingv1.NetworkPolicy{}).On("ingresses", "")).Refused(t, 400,
		"DefaultIngressClass: the object of a request for ingresses is a *v1.NetworkPolicy")
}

func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil,
			&plugin.Env{Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		began := time.Now()
		subject.Admit(t, plugintest.Create(ingress("a", nil))).Admitted(t)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("what needs no class waited for %v", waited)
		}
		subject.Admit(t, plugintest.Create(ingress("-", nil))).Refused(t, 403,
			`ingresses.networking.k8s.io "i" is forbidden: not yet ready to handle request`)
	})
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	if _, err := Descriptor.New(nil, &plugin.Env{}); err == nil || err.Error() != "DefaultIngressClass needs informers" {
		t.Errorf("got %v", err)
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "DefaultIngressClass takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
