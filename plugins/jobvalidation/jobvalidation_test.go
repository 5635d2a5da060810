// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jobvalidation

import (
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// job is a Job whose pods are in the group, "" where its template names none.
func job(parallelism int32, group string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "job-uid"}}
	if parallelism > 0 {
		j.Spec.Parallelism = &parallelism
	}
	if group != "" {
		j.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	return j
}

// group is a PodGroup, a gang or not, that the Job of a uid controls, "" for nobody's.
func group(name string, gang bool, owner types.UID) *schedulingv1alpha3.PodGroup {
	g := &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if gang {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.GangSchedulingPolicy{MinCount: 4}
	} else {
		g.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.BasicSchedulingPolicy{}
	}
	if owner != "" {
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: owner,
			Controller: new(true)}}
	}
	return g
}

// Upstream: TestJobValidation in plugin/pkg/admission/job/admission_test.go.
func TestParallelism(t *testing.T) {
	const refused = `jobs.batch "j" is forbidden: cannot change parallelism for a Job referencing gang-scheduled ` +
		`PodGroup "g"`
	elsewhere := group("g", true, "job-uid")
	elsewhere.Namespace = "other"
	owned := group("g", true, "job-uid")
	owned.OwnerReferences[0].Controller = nil
	for name, test := range map[string]struct {
		group    *schedulingv1alpha3.PodGroup
		job, old *batchv1.Job
		want     string
	}{
		"a gang that it names":             {group("g", true, ""), job(8, "g"), job(4, "g"), refused},
		"... and the update doesn't":       {group("g", true, ""), job(8, ""), job(4, "g"), refused},
		"... and it had no parallelism":    {group("g", true, ""), job(8, "g"), job(0, "g"), refused},
		"... and has none any more":        {group("g", true, ""), job(0, "g"), job(4, "g"), refused},
		"... and the parallelism stays":    {group("g", true, ""), job(4, "g"), job(4, "g"), ""},
		"a gang that the update names":     {group("g", true, ""), job(8, "g"), job(4, ""), ""},
		"no gang that it names":            {group("g", false, ""), job(8, "g"), job(4, "g"), ""},
		"one that isn't there":             {group("g", true, ""), job(8, "x"), job(4, "x"), ""},
		"one of another namespace":         {elsewhere, job(8, "g"), job(4, "g"), ""},
		"a gang that it controls":          {group("g", true, "job-uid"), job(8, ""), job(4, ""), refused},
		"no gang that it controls":         {group("g", false, "job-uid"), job(8, ""), job(4, ""), ""},
		"one that it owns, no more":        {owned, job(8, ""), job(4, ""), ""},
		"another Job's":                    {group("g", true, "other"), job(8, ""), job(4, ""), ""},
		"it controls one, names another":   {group("g", true, "job-uid"), job(8, "x"), job(4, "x"), ""},
		"one of another namespace's owner": {elsewhere, job(8, ""), job(4, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", []runtime.Object{test.group}...)
			result := subject.Validate(t, plugintest.Update(test.job, test.old))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", group("g", true, ""))
	given, old := job(8, "g"), job(4, "g")
	for name, request := range map[string]plugintest.Request{
		"create": plugintest.Create(given),
		"status": plugintest.Update(given, old).On("jobs", "status"),
		"delete": plugintest.Delete(given),
		"others": plugintest.Update(given, old).On("others", ""),
	} {
		if subject.Validate(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	const noJob = "JobValidation: the object of a request for jobs is a *v1.Pod"
	wrong := plugintest.Update(given, old)
	wrong.Object = &corev1.Pod{}
	subject.Validate(t, wrong).Refused(t, 400, noJob)
	wrong.Object, wrong.OldObject = given, &corev1.Pod{}
	subject.Validate(t, wrong).Refused(t, 400, noJob)
}

func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil, &plugin.Env{Informers: informers.NewSharedInformerFactory(fake.NewClientset(),
			0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Validate(t, plugintest.Update(job(4, ""), job(4, ""))).Admitted(t)
		subject.Validate(t, plugintest.Update(job(8, ""), job(4, ""))).Refused(t, 403,
			`jobs.batch "j" is forbidden: not yet ready to handle request`)
	})
}
