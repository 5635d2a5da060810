// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultstorageclass

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	stable = "storageclass.kubernetes.io/is-default-class"
	beta   = "storageclass.beta.kubernetes.io/is-default-class"

	head       = "apiVersion: gatehouse.dev/v1alpha1\nkind: DefaultStorageClassConfiguration\n"
	takeNewest = head + "multipleDefaults: Newest"
)

// class makes a StorageClass of this age, in seconds, with an annotation of "key=value", unless
// that is empty.
func class(name, annotation string, age int) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.Unix(1_700_000_000-int64(age), 0),
	}}
	if key, value, ok := strings.Cut(annotation, "="); ok {
		c.Annotations = map[string]string{key: value}
	}
	return c
}

// claim makes a claim that names a class, unless that is "-", and has annotations, unless they are
// nil.
func claim(class string, annotations map[string]string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c",
		Annotations: annotations}}
	if class != "-" {
		c.Spec.StorageClassName = &class
	}
	return c
}

func classOf(c *corev1.PersistentVolumeClaim) string {
	if c.Spec.StorageClassName == nil {
		return "-"
	}
	return *c.Spec.StorageClassName
}

// The cases of TestAdmission in
// k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault/admission_test.go, and
// some more. Several defaults are refused where nothing else is configured, as Kubernetes did until
// 1.25.
func TestCreate(t *testing.T) {
	const several = `persistentvolumeclaims "c" is forbidden: 2 default StorageClasses were found: a, b; ` +
		`set spec.storageClassName, or let only one of them have the annotation ` +
		`storageclass.kubernetes.io/is-default-class: "true"`
	for name, test := range map[string]struct {
		config  string
		classes []runtime.Object
		claim   *corev1.PersistentVolumeClaim
		want    string
	}{
		"no classes":           {"", nil, claim("-", nil), "-"},
		"one, not the default": {"", []runtime.Object{class("a", "", 0)}, claim("-", nil), "-"},
		"one, said not to be":  {"", []runtime.Object{class("a", stable+"=false", 0)}, claim("-", nil), "-"},
		"one, not said well":   {"", []runtime.Object{class("a", stable+"=yes", 0)}, claim("-", nil), "-"},
		"one, the default": {"", []runtime.Object{class("a", "", 0), class("b", stable+"=true", 0)},
			claim("-", nil), "b"},
		"one, by the beta annotation": {"", []runtime.Object{class("b", beta+"=true", 0)}, claim("-", nil), "b"},
		"named already": {"", []runtime.Object{class("a", stable+"=true", 0)}, claim("other", nil),
			"other"},
		"named as nothing": {"", []runtime.Object{class("a", stable+"=true", 0)}, claim("", nil), ""},
		"named by annotation": {"", []runtime.Object{class("a", stable+"=true", 0)},
			claim("-", map[string]string{corev1.BetaStorageClassAnnotation: "other"}), "-"},
		"named as nothing by that": {"", []runtime.Object{class("a", stable+"=true", 0)},
			claim("-", map[string]string{corev1.BetaStorageClassAnnotation: ""}), "-"},
		"several": {"", []runtime.Object{class("b", stable+"=true", 5),
			class("a", beta+"=true", 9), class("c", "", 0)}, claim("-", nil), several},
		"several, by configuration": {head + "multipleDefaults: Reject",
			[]runtime.Object{class("b", stable+"=true", 5), class("a", beta+"=true", 9)}, claim("-", nil), several},
		"several, but one is named": {"",
			[]runtime.Object{class("b", stable+"=true", 5), class("a", stable+"=true", 9)}, claim("a", nil), "a"},
		"several, none is wanted": {"",
			[]runtime.Object{class("b", stable+"=true", 5), class("a", stable+"=true", 9)}, claim("", nil), ""},
		"newest: none": {takeNewest, nil, claim("-", nil), "-"},
		"newest: one": {takeNewest, []runtime.Object{class("a", stable+"=true", 0)}, claim("-", nil),
			"a"},
		"newest: several": {takeNewest, []runtime.Object{class("a", stable+"=true", 9),
			class("c", beta+"=true", 3), class("b", stable+"=true", 5), class("d", "", 0)}, claim("-", nil), "c"},
		"newest: several of one second": {takeNewest, []runtime.Object{class("c", stable+"=true", 5),
			class("b", stable+"=true", 5), class("a", stable+"=true", 6)}, claim("-", nil), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, test.config, test.classes...)
			result := subject.Admit(t, plugintest.Create(test.claim))
			if test.want == several {
				result.Refused(t, 403, several)
				return
			}
			if got := classOf(result.Admitted(t).Object.(*corev1.PersistentVolumeClaim)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if calls := subject.Calls(); len(calls) != 0 {
				t.Errorf("the cache should do, but there were calls: %q", calls)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", class("a", stable+"=true", 0))
	for name, request := range map[string]plugintest.Request{
		"update":          plugintest.Update(claim("-", nil), claim("-", nil)),
		"status":          plugintest.Create(claim("-", nil)).On("persistentvolumeclaims", "status"),
		"other resources": plugintest.Create(claim("-", nil)).On("others", ""),
		"delete":          plugintest.Delete(claim("-", nil)),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&corev1.Pod{}).On("persistentvolumeclaims", "")).Refused(t, 400,
		"DefaultStorageClass: the object of a request for persistentvolumeclaims is a *v1.Pod")
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
		subject.Admit(t, plugintest.Create(claim("a", nil))).Admitted(t)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("what needs no class waited for %v", waited)
		}
		subject.Admit(t, plugintest.Create(claim("-", nil))).Refused(t, 403,
			`persistentvolumeclaims "c" is forbidden: not yet ready to handle request`)
	})
}

// What can't be built, and why.
func TestConfiguration(t *testing.T) {
	const of = "the configuration of DefaultStorageClass: "
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for name, test := range map[string]struct {
		config string
		env    *plugin.Env
		want   string // empty: it can
	}{
		"nothing in it": {head, &plugin.Env{Informers: factory}, ""},
		"no informers":  {head, &plugin.Env{}, "DefaultStorageClass needs informers"},
		"another word": {head + "multipleDefaults: Oldest", &plugin.Env{Informers: factory}, of +
			`multipleDefaults: Unsupported value: "Oldest": supported values: "Newest", "Reject"`},
		"no word": {head + `multipleDefaults: ""`, &plugin.Env{Informers: factory}, of +
			`multipleDefaults: Unsupported value: "": supported values: "Newest", "Reject"`},
		"no string": {head + "multipleDefaults: 1", &plugin.Env{Informers: factory}, of +
			"multipleDefaults: is of type number, must be a string"},
		"another field": {head + "default: a", &plugin.Env{Informers: factory}, of + `unknown field "default"`},
		"another kind": {"apiVersion: v1\nkind: Pod", &plugin.Env{Informers: factory}, of +
			`is kind "Pod" in apiVersion "v1", must be kind DefaultStorageClassConfiguration in apiVersion ` +
			`gatehouse.dev/v1alpha1`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), test.env)
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, config := range []string{"", head, takeNewest, head + "multipleDefaults: [",
		`{"kind": "DefaultStorageClassConfiguration"}`, "null", "- 1", "\x00"} {
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config string) {
		c, err := load(strings.NewReader(config))
		if err == nil && c.MultipleDefaults != reject && c.MultipleDefaults != newest {
			t.Errorf("accepted as %q", c.MultipleDefaults)
		}
	})
}
