// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroupworkloadexists

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func workload(name string, templates ...string) *schedulingv1alpha3.Workload {
	w := &schedulingv1alpha3.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, template := range templates {
		w.Spec.PodGroupTemplates = append(w.Spec.PodGroupTemplates, schedulingv1alpha3.PodGroupTemplate{Name: template})
	}
	return w
}

func group(workload, template string) *schedulingv1alpha3.PodGroup {
	return &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
		Spec: schedulingv1alpha3.PodGroupSpec{WorkloadRef: &schedulingv1alpha3.WorkloadReference{
			WorkloadName: workload, TemplateName: template}}}
}

const refused = `podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: `

// Upstream: TestValidate in plugin/pkg/admission/podgroup/admission_test.go.
func TestWorkloads(t *testing.T) {
	leaving, elsewhere := workload("leaving", "a"), workload("elsewhere", "a")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/f"}
	elsewhere.Namespace = "other"
	none := group("", "")
	none.Spec.WorkloadRef = nil
	subject := plugintest.New(t, Descriptor, "", workload("w", "a", "b"), leaving, elsewhere)
	for name, test := range map[string]struct {
		group *schedulingv1alpha3.PodGroup
		want  string
	}{
		"no reference":         {none, ""},
		"both are there":       {group("w", "b"), ""},
		"no such template":     {group("w", "c"), `PodGroupTemplate "c" not found in Workload "w"`},
		"no such Workload":     {group("gone", "a"), `Workload "gone" not found`},
		"it is being deleted":  {group("leaving", "a"), `Workload "leaving" is being deleted`},
		"of another namespace": {group("elsewhere", "a"), `Workload "elsewhere" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Validate(t, plugintest.Create(test.group))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, refused+test.want)
			}
		})
	}
}

func TestAWorkloadIsReadLiveWhereTheCacheHasNone(t *testing.T) {
	for name, test := range map[string]struct {
		live *schedulingv1alpha3.Workload
		err  error
		code int
		want string
	}{
		"it has just come": {workload("w", "a"), nil, 0, ""},
		"... without the template": {workload("w"), nil, 403,
			refused + `PodGroupTemplate "a" not found in Workload "w"`},
		"the read fails": {nil, errors.New("etcd is down"), 500, "Internal error occurred: etcd is down"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "")
			subject.Client.PrependReactor("get", "workloads", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, test.live, test.err
			})
			result := subject.Validate(t, plugintest.Create(group("w", "a")))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, test.code, test.want)
			}
			if got := subject.Calls(); !slices.Equal(got, []string{"get workloads ns/w"}) {
				t.Errorf("calls %q", got)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	given := group("gone", "a")
	for name, request := range map[string]plugintest.Request{
		"update": plugintest.Update(given, given),
		"status": plugintest.Create(given).On("podgroups", "status"),
		"delete": plugintest.Delete(given),
		"others": plugintest.Create(given).On("others", ""),
	} {
		if subject.Validate(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := plugintest.Create(given)
	wrong.Object = &corev1.Pod{}
	subject.Validate(t, wrong).Refused(t, 400,
		"PodGroupWorkloadExists: the object of a request for podgroups is a *v1.Pod")
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
		subject.Validate(t, plugintest.Create(group("w", "a"))).Refused(t, 403,
			`podgroups.scheduling.k8s.io "g" is forbidden: not yet ready to handle request`)
	})
}
