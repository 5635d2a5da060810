// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storageobjectinuseprotection

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

const (
	forClaims  = "kubernetes.io/pvc-protection"
	forVolumes = "kubernetes.io/pv-protection"
	forClasses = "kubernetes.io/vac-protection"
)

func claim(finalizers ...string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim",
		Finalizers: finalizers}}
}

func volume(finalizers ...string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume", Finalizers: finalizers}}
}

func class(finalizers ...string) *storagev1.VolumeAttributesClass {
	return &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "class", Finalizers: finalizers}}
}

// The cases of TestAdmit in
// k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection/admission_test.go,
// and some more.
func TestCreate(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		object interface {
			runtime.Object
			metav1.Object
		}
		want []string
	}{
		"claim":                           {claim(), []string{forClaims}},
		"claim that has it":               {claim(forClaims), []string{forClaims}},
		"claim that has another":          {claim("example.com/a"), []string{"example.com/a", forClaims}},
		"claim that has both":             {claim(forClaims, "example.com/a"), []string{forClaims, "example.com/a"}},
		"claim that has the volumes' one": {claim(forVolumes), []string{forVolumes, forClaims}},
		"volume":                          {volume(), []string{forVolumes}},
		"volume that has it":              {volume(forVolumes), []string{forVolumes}},
		"volume that has another":         {volume("example.com/a"), []string{"example.com/a", forVolumes}},
		"volume attributes class":         {class(), []string{forClasses}},
		"volume attributes class with it": {class(forClasses), []string{forClasses}},
		"what has nothing to do with this": {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := subject.Admit(t, plugintest.Create(test.object)).Admitted(t).Object.(metav1.Object).GetFinalizers()
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A finalizer that a user has taken off stays off: to the object, that is an update.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"update":           plugintest.Update(claim(), claim(forClaims)),
		"delete":           plugintest.Delete(volume()),
		"status":           plugintest.Create(claim()).On("persistentvolumeclaims", "status"),
		"of another group": plugintest.Create(claim()).On("volumeattributesclasses", ""),
	} {
		if subject.Admit(t, request).Admitted(t).Changed {
			t.Errorf("%s: the object is changed", name)
		}
	}
	subject.Admit(t, plugintest.Create(&metav1.Status{}).On("persistentvolumes", "")).Refused(t, 400,
		"StorageObjectInUseProtection: the object of a request for persistentvolumes is a *v1.Status")
}

// Servers that emulate a version before 1.34 have the gate off.
func TestClassesFollowTheirGate(t *testing.T) {
	for gate, want := range map[string][]string{"on": {forClasses}, "off": nil} {
		gates := featuregate.NewFeatureGate()
		if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
			"VolumeAttributesClass": {Default: gate == "on", PreRelease: featuregate.GA}}); err != nil {
			t.Fatal(err)
		}
		cluster := plugintest.NewCluster(t)
		cluster.Env.Features = gates
		subject := cluster.Build(t, Descriptor, "")
		for object, want := range map[metav1.Object][]string{class(): want, claim(): {forClaims}} {
			admitted := subject.Admit(t, plugintest.Create(object.(runtime.Object))).Admitted(t)
			if got := admitted.Object.(metav1.Object).GetFinalizers(); !slices.Equal(got, want) {
				t.Errorf("%s: %q of %s, want %q", gate, got, object.GetName(), want)
			}
		}
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	_, err := Descriptor.New(strings.NewReader("a: b"), nil)
	if err == nil || err.Error() != "StorageObjectInUseProtection takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
