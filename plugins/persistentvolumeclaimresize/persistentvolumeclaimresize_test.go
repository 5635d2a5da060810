// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaimresize

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	onlyBound = `persistentvolumeclaims "c" is forbidden: Only bound persistent volume claims can be expanded`
	noSupport = `persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the ` +
		`storageclass that provisions the pvc must support resize`
)

// class makes a StorageClass whose volumes can be expanded, or not, or that doesn't say.
func class(name string, expandable ...bool) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(expandable) > 0 {
		c.AllowVolumeExpansion = &expandable[0]
	}
	return c
}

// claim makes a claim of "size phase class", the class with "beta:" before it where the annotation
// has it. "-" is what it doesn't say.
func claim(text string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	words := strings.Fields(text)
	if words[0] != "-" {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(words[0])}
	}
	if words[1] != "-" {
		c.Status.Phase = corev1.PersistentVolumeClaimPhase(words[1])
	}
	if beta, ok := strings.CutPrefix(words[2], "beta:"); ok {
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: beta}
	} else if words[2] != "-" {
		c.Spec.StorageClassName = &words[2]
	}
	return c
}

var classes = []runtime.Object{class("yes", true), class("no", false), class("silent")}

// The cases of TestPVCResizeAdmission in
// k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize/admission_test.go, and
// some more.
func TestUpdate(t *testing.T) {
	for name, test := range map[string]struct{ old, claim, want string }{
		"more, of a class that allows it":        {"1Gi Bound yes", "2Gi Bound yes", ""},
		"more by one byte":                       {"1Gi Bound no", "1073741825 Bound no", noSupport},
		"more, of a class that doesn't":          {"1Gi Bound no", "2Gi Bound no", noSupport},
		"more, of a class that says nothing":     {"1Gi Bound silent", "2Gi Bound silent", noSupport},
		"more, of no such class":                 {"1Gi Bound gone", "2Gi Bound gone", noSupport},
		"more, of no class":                      {"1Gi Bound -", "2Gi Bound -", noSupport},
		"more, of a class by annotation":         {"1Gi Bound beta:yes", "2Gi Bound beta:yes", ""},
		"more, the annotation says no class":     {"1Gi Bound beta:", "2Gi Bound beta:", noSupport},
		"more, the annotation is no name":        {"1Gi Bound beta:../x", "2Gi Bound beta:../x", noSupport},
		"more, the class by annotation then not": {"1Gi Bound beta:yes", "2Gi Bound yes", ""},
		"more, and another class":                {"1Gi Bound no", "2Gi Bound yes", noSupport},
		"more, and a class":                      {"1Gi Bound -", "2Gi Bound yes", noSupport},
		"more, and no class":                     {"1Gi Bound yes", "2Gi Bound -", noSupport},
		"more, not yet bound":                    {"1Gi Pending yes", "2Gi Pending yes", onlyBound},
		"more, no phase":                         {"1Gi - yes", "2Gi - yes", onlyBound},
		"more, lost":                             {"1Gi Lost yes", "2Gi Lost yes", onlyBound},
		"more, says that it is bound":            {"1Gi Pending yes", "2Gi Bound yes", onlyBound},
		"where nothing was requested":            {"- Bound no", "1Gi Bound no", noSupport},
		"as much":                                {"1Gi Pending no", "1Gi Pending no", ""},
		"as much, written otherwise":             {"1Gi Pending no", "1024Mi Pending no", ""},
		"less":                                   {"2Gi Bound no", "1Gi Bound no", ""},
		"nothing any more":                       {"2Gi Bound no", "- Bound no", ""},
	} {
		t.Run(name, func(t *testing.T) {
			result := plugintest.New(t, Descriptor, "", classes...).Validate(t,
				plugintest.Update(claim(test.claim), claim(test.old)))
			if test.want == "" {
				result.Admitted(t)
				return
			}
			result.Refused(t, 403, test.want)
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	more, old := claim("2Gi Pending no"), claim("1Gi Pending no")
	subject.Validate(t, plugintest.Create(more)).Admitted(t)
	subject.Validate(t, plugintest.Delete(old)).Admitted(t)
	subject.Validate(t, plugintest.Update(more, old).On("persistentvolumeclaims", "status")).Admitted(t)
	subject.Validate(t, plugintest.Update(more, old).On("others", "")).Admitted(t)

	const noClaim = "PersistentVolumeClaimResize: the object of a request for persistentvolumeclaims is a *v1.Pod"
	subject.Validate(t, plugintest.Update(&corev1.Pod{}, old).On("persistentvolumeclaims", "")).Refused(t, 400, noClaim)
	subject.Validate(t, plugintest.Update(more, &corev1.Pod{})).Refused(t, 400, noClaim)
}

// Only what the cache would refuse is read live.
func TestPermissionHoldsAtOnce(t *testing.T) {
	update := plugintest.Update(claim("2Gi Bound a"), claim("1Gi Bound a"))
	for name, test := range map[string]struct {
		cached, live *storagev1.StorageClass
		want         string
		calls        []string
	}{
		"the cache allows it":          {class("a", true), class("a", false), "", nil},
		"the class has just come":      {nil, class("a", true), "", []string{"get storageclasses a"}},
		"it has just been allowed":     {class("a", false), class("a", true), "", []string{"get storageclasses a"}},
		"it is still not allowed":      {class("a", false), class("a"), noSupport, []string{"get storageclasses a"}},
		"the class has just gone":      {class("a", false), nil, noSupport, []string{"get storageclasses a"}},
		"the class isn't there at all": {nil, nil, noSupport, []string{"get storageclasses a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var cached []runtime.Object
			if test.cached != nil {
				cached = append(cached, test.cached)
			}
			subject := plugintest.New(t, Descriptor, "", cached...)
			subject.Client.PrependReactor("get", "storageclasses",
				func(clienttesting.Action) (bool, runtime.Object, error) {
					if test.live == nil {
						return true, nil, apierrors.NewNotFound(storagev1.Resource("storageclasses"), "a")
					}
					return true, test.live, nil
				})
			result := subject.Validate(t, update)
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
			if got := subject.Calls(); !slices.Equal(got, test.calls) {
				t.Errorf("calls %q, want %q", got, test.calls)
			}
		})
	}

	subject := plugintest.New(t, Descriptor, "")
	subject.Client.PrependReactor("get", "storageclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("etcd is down")
	})
	subject.Validate(t, update).Refused(t, 500, "Internal error occurred: failed to get StorageClass a: etcd is down")
}

func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		built, err := Descriptor.New(nil,
			&plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Validate(t, plugintest.Update(claim("1Gi Bound a"), claim("1Gi Bound a"))).Admitted(t)
		subject.Validate(t, plugintest.Update(claim("2Gi Bound a"), claim("1Gi Bound a"))).Refused(t, 403,
			`persistentvolumeclaims "c" is forbidden: not yet ready to handle request`)
	})
}
