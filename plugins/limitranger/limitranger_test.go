// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// The limits of the two tables of seed 001, and of upstream's validLimitRangeNoDefaults.
func tableLimits() *corev1.LimitRange {
	return limitRange("limits",
		item(corev1.LimitTypePod, "max cpu=200m memory=4Gi, min cpu=50m memory=2Mi"),
		item(corev1.LimitTypeContainer, "max cpu=100m memory=2Gi, min cpu=25m memory=1Mi"),
	)
}

// Which requests are limited. Source: upstream's TestLimitRangerIgnoresSubresource,
// TestLimitRangerAllowPodResize, TestLimitRangerAdmitPod.
func TestRequests(t *testing.T) {
	refusal := wrong(
		"minimum cpu usage per Pod is 50m.  No request is specified",
		"minimum memory usage per Pod is 2Mi.  No request is specified",
		"maximum cpu usage per Pod is 200m.  No limit is specified",
		"maximum memory usage per Pod is 4Gi.  No limit is specified",
		"minimum cpu usage per Container is 25m.  No request is specified",
		"minimum memory usage per Container is 1Mi.  No request is specified",
		"maximum cpu usage per Container is 100m.  No limit is specified",
		"maximum memory usage per Container is 2Gi.  No limit is specified",
	)
	bare := pod(container("c", "", ""))
	going := bare.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	elsewhere := bare.DeepCopy()
	elsewhere.Namespace = "other"
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}

	for name, test := range map[string]struct {
		request plugintest.Request
		refused bool
	}{
		"create":                                {plugintest.Create(bare), true},
		"create, dry run":                       {plugintest.Create(bare).AsDryRun(), true},
		"resize":                                {plugintest.Update(bare, bare).On("pods", "resize"), true},
		"resize of what is being deleted":       {plugintest.Update(bare, going).On("pods", "resize"), false},
		"resize that only claims to be deleted": {plugintest.Update(going, bare).On("pods", "resize"), true},
		"update":                                {plugintest.Update(bare, bare), false},
		"update of what is being deleted":       {plugintest.Update(going, going), false},
		"status":                                {plugintest.Update(bare, bare).On("pods", "status"), false},
		"ephemeral containers": {plugintest.Update(bare, bare).On("pods", "ephemeralcontainers"),
			false},
		"binding":           {plugintest.Create(binding).On("pods", "binding"), false},
		"delete":            {plugintest.Delete(bare), false},
		"connect":           {plugintest.Connect(bare, "exec", &corev1.PodExecOptions{}), false},
		"another namespace": {plugintest.Create(elsewhere), false},
		"another kind": {plugintest.Create(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}), false},
		"the limits themselves": {plugintest.Create(tableLimits()), false},
	} {
		t.Run(name, func(t *testing.T) {
			subject := newPlugin(t, tableLimits())
			if result := subject.Admit(t, test.request).Admitted(t); result.Changed {
				t.Error("without defaults, the object is changed")
			}
			result := subject.Validate(t, test.request)
			if test.refused {
				result.Refused(t, 403, refusal)
			} else {
				result.Admitted(t)
			}
		})
	}
}

// The worked examples of seed 001: its tables Pod-1 and Pod-2.
func TestSeedTables(t *testing.T) {
	subject := newPlugin(t, tableLimits())
	of := func(name, each string) corev1.Container { return container(name, each, each) }

	pod1 := pod(of("c1", "cpu=100m memory=2Gi"), of("c2", "cpu=100m memory=2Gi"))
	subject.Validate(t, plugintest.Create(pod1)).Admitted(t)

	pod2 := pod(of("c1", "cpu=60m memory=1Mi"), of("c2", "cpu=60m memory=1Mi"), of("c3", "cpu=60m memory=1Mi"),
		of("c4", "cpu=60m memory=1Mi"))
	subject.Validate(t, plugintest.Create(pod2)).Refused(t, 403,
		wrong("maximum cpu usage per Pod is 200m, but limit is 240m"))
}

// Source: upstream's TestPersistentVolumeClaimLimitFunc.
func TestClaims(t *testing.T) {
	of := func(limits string) corev1.LimitRangeItem { return item(corev1.LimitTypePersistentVolumeClaim, limits) }
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		item  corev1.LimitRangeItem
		want  string
	}{
		"at min":    {claim("storage=1Gi"), of("min storage=1Gi"), ""},
		"at max":    {claim("storage=1Gi"), of("max storage=1Gi"), ""},
		"no limits": {claim("storage=100Gi"), of("min , max "), ""},
		"within":    {claim("storage=5Gi"), of("min storage=1Gi, max storage=10Gi"), ""},
		"below min": {claim("storage=500Mi"), of("min storage=1Gi"),
			"minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"},
		"above max": {claim("storage=100Gi"), of("min storage=1Gi, max storage=1Gi"),
			"maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 100Gi"},
		"no request": {claim(""), of("max storage=1Gi"),
			"maximum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified"},
		"neither": {claim(""), of("min storage=1Mi, max storage=1Gi"),
			"[minimum storage usage per PersistentVolumeClaim is 1Mi.  No request is specified, " +
				"maximum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified]"},
		"other types": {claim("storage=100Gi"), item(corev1.LimitTypePod, "max storage=1Gi"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := newPlugin(t, limitRange("limits", test.item))
			for _, request := range []plugintest.Request{plugintest.Create(test.claim),
				plugintest.Update(test.claim, test.claim)} {
				if result := subject.Admit(t, request).Admitted(t); result.Changed {
					t.Error("the claim is changed")
				}
				if test.want == "" {
					subject.Validate(t, request).Admitted(t)
				} else {
					subject.Validate(t, request).Refused(t, 403, `persistentvolumeclaims "c" is forbidden: `+test.want)
				}
			}
			subject.Validate(t,
				plugintest.Update(test.claim, test.claim).On("persistentvolumeclaims", "status")).Admitted(t)
			going := test.claim.DeepCopy()
			going.DeletionTimestamp = &metav1.Time{}
			subject.Validate(t, plugintest.Update(test.claim, going)).Admitted(t)
		})
	}
}

// unread fails the test when a plugin looks at an object, which could mean converting it.
type unread struct {
	admission.Attributes
	t *testing.T
}

func (u unread) GetObject() runtime.Object    { u.t.Error("the object is looked at"); return nil }
func (u unread) GetOldObject() runtime.Object { u.t.Error("the old object is looked at"); return nil }

func TestObjectsAreNotLookedAtInVain(t *testing.T) {
	subject := newPlugin(t, tableLimits())
	for _, test := range []struct {
		resource, namespace string
		operation           admission.Operation
	}{
		{"pods", "ns", admission.Update},
		{"configmaps", "ns", admission.Create},
		{"limitranges", "ns", admission.Update},
	} {
		a := unread{admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Kind"), test.namespace,
			"n",
			corev1.SchemeGroupVersion.WithResource(test.resource), "", test.operation, nil, false, nil), t}
		if err := subject.Built.(plugin.Mutator).Admit(t.Context(), a, nil); err != nil {
			t.Error(err)
		}
		if err := subject.Built.(plugin.Validator).Validate(t.Context(), a, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongObjects(t *testing.T) {
	subject := newPlugin(t, limitRange("limits", item(corev1.LimitTypeContainer, "default cpu=1")))
	request := plugintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}).On("pods", "")
	subject.Admit(t, request).Refused(t, 400, "LimitRanger: the object of a request for pods is a *v1.ConfigMap")
	subject.Validate(t, request).Refused(t, 400, "LimitRanger: the object of a request for pods is a *v1.ConfigMap")
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(tableLimits())
		built, err := Descriptor.New(nil,
			&plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		const refusal = `pods "p" is forbidden: not yet ready to handle request`
		subject.Admit(t, plugintest.Create(pod())).Refused(t, 403, refusal)
		subject.Validate(t, plugintest.Create(pod())).Refused(t, 403, refusal)
		subject.Validate(t, plugintest.Update(pod(), pod())).Admitted(t)
		subject.Validate(t, plugintest.Create(tableLimits())).Admitted(t)
	})
}

func TestItIsOn(t *testing.T) {
	if !Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

// A pod of two containers through both phases.
func BenchmarkAdmitAndValidate(b *testing.B) {
	for name, ranges := range map[string][]*corev1.LimitRange{
		"no LimitRange":  nil,
		"one LimitRange": {tableLimits()},
	} {
		b.Run(name, func(b *testing.B) {
			subject := newPlugin(b, ranges...)
			mutation, validation := subject.Built.(plugin.Mutator),
				subject.Built.(plugin.Validator)
			p := pod(container("c1", "cpu=50m memory=1Gi", "cpu=100m memory=2Gi"),
				container("c2", "cpu=50m memory=1Gi", "cpu=100m memory=2Gi"))
			a := admission.NewAttributesRecord(p, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
			b.ReportAllocs()
			for b.Loop() {
				if err := mutation.Admit(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
				if err := validation.Validate(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
