// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Source of the cases with upstream's names: TestPodEvaluatorUsage in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods_test.go. The numbers of the others follow from
// its rules.
func TestPodUsage(t *testing.T) {
	const one = "count/pods=1,pods=1,"
	dongles := func(n string) corev1.Container {
		return box("c", "example.com/dongle="+n, "example.com/dongle="+n)
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"nothing stated": {newPod(with(box("c", "", ""))), one},
		"init container CPU": {newPod(withInit(box("c", "cpu=1m", "cpu=2m"))), one +
			"cpu=1m,requests.cpu=1m,limits.cpu=2m"},
		"init container MEM": {newPod(withInit(box("c", "memory=1m", "memory=2m"))), one +
			"memory=1m,requests.memory=1m,limits.memory=2m"},
		"init container local ephemeral storage": {newPod(withInit(box("c", "ephemeral-storage=32Mi",
			"ephemeral-storage=64Mi"))), one +
			"ephemeral-storage=32Mi,requests.ephemeral-storage=32Mi,limits.ephemeral-storage=64Mi"},
		"init container hugepages": {newPod(withInit(box("c", "hugepages-2Mi=100Mi", ""))), one +
			"hugepages-2Mi=100Mi,requests.hugepages-2Mi=100Mi"},
		"init container extended resources": {newPod(withInit(dongles("3"))), one +
			"requests.example.com/dongle=3"},
		"container CPU": {newPod(with(box("c", "cpu=1m", "cpu=2m"))), one +
			"cpu=1m,requests.cpu=1m,limits.cpu=2m"},
		"container MEM": {newPod(with(box("c", "memory=1m", "memory=2m"))), one +
			"memory=1m,requests.memory=1m,limits.memory=2m"},
		"container local ephemeral storage": {newPod(with(box("c", "ephemeral-storage=32Mi",
			"ephemeral-storage=64Mi"))), one +
			"ephemeral-storage=32Mi,requests.ephemeral-storage=32Mi,limits.ephemeral-storage=64Mi"},
		"container hugepages": {newPod(with(box("c", "hugepages-2Mi=100Mi", ""))), one +
			"hugepages-2Mi=100Mi,requests.hugepages-2Mi=100Mi"},
		"container extended resources": {newPod(with(dongles("3"))), one + "requests.example.com/dongle=3"},
		"container implicit extended resources": {
			newPod(with(box("c", "deviceclass.resource.kubernetes.io/dongle=3",
				"deviceclass.resource.kubernetes.io/dongle=3"))),
			one + "requests.deviceclass.resource.kubernetes.io/dongle=3",
		},
		"terminated generic count still appears": {newPod(with(dongles("3")), inPhase(corev1.PodSucceeded)),
			"count/pods=1"},
		"failed": {newPod(with(dongles("3")), inPhase(corev1.PodFailed)),
			"count/pods=1"},
		"running": {newPod(with(dongles("3")), inPhase(corev1.PodRunning)), one +
			"requests.example.com/dongle=3"},
		"init container maximums override sum of containers": {
			newPod(
				withInit(box("i1", "cpu=4,memory=100M,example.com/dongle=4", "cpu=8,memory=200M,example.com/dongle=4"),
					box("i2", "cpu=1,memory=50M,example.com/dongle=2", "cpu=2,memory=100M,example.com/dongle=2")),
				with(box("c1", "cpu=1,memory=50M,example.com/dongle=1", "cpu=2,memory=100M,example.com/dongle=1"),
					box("c2", "cpu=2,memory=25M,example.com/dongle=2", "cpu=5,memory=50M,example.com/dongle=2"))),
			one +
				"requests.cpu=4,cpu=4,limits.cpu=8,requests.memory=100M,memory=100M,limits.memory=200M," +
				"requests.example.com/dongle=4",
		},
		// 1 for the sidecar while it runs beside the container, which is more than 2 for the init
		// container beside it.
		"sidecar": {
			newPod(withInit(sidecar(box("s", "cpu=1", "")), box("i", "cpu=1", "")), with(box("c", "cpu=2", ""))),
			one + "cpu=3,requests.cpu=3",
		},
		"pod deletion timestamp exceeded": {
			newPod(with(box("c", "cpu=1,memory=50M", "cpu=2,memory=100M")), deleted(noon.Add(-time.Minute), 30)),
			"count/pods=1",
		},
		"pod deletion timestamp not exceeded": {
			newPod(with(box("c", "cpu=1", "cpu=2")), deleted(noon, 30)), one + "cpu=1,requests.cpu=1,limits.cpu=2",
		},
		"pod deletion timestamp exceeded in this moment": {
			newPod(with(box("c", "cpu=1", "cpu=2")), deleted(noon.Add(-30*time.Second), 30)), one +
				"cpu=1,requests.cpu=1,limits.cpu=2",
		},
		"count pod overhead as usage": {
			newPod(with(box("c", "cpu=1", "cpu=2")), overhead("cpu=1")), one + "cpu=2,requests.cpu=2,limits.cpu=3",
		},
		"overhead of what isn't limited": {newPod(with(box("c", "cpu=1", "")), overhead("cpu=1")), one +
			"cpu=2,requests.cpu=2"},
		"pod-level CPU": {newPod(podLevel("cpu=1m", "cpu=2m")), one +
			"cpu=1m,requests.cpu=1m,limits.cpu=2m"},
		"pod-level memory with container-level ephemeral storage": {
			newPod(podLevel("memory=1Mi", "memory=2Mi"),
				with(box("c", "ephemeral-storage=32Mi", "ephemeral-storage=64Mi"))),
			one +
				"memory=1Mi,requests.memory=1Mi,limits.memory=2Mi,ephemeral-storage=32Mi," +
				"requests.ephemeral-storage=32Mi,limits.ephemeral-storage=64Mi",
		},
		"pod-level instead of container-level": {
			newPod(podLevel("cpu=3", ""), with(box("c", "cpu=1,memory=1Gi", ""))), one +
				"cpu=3,requests.cpu=3,memory=1Gi,requests.memory=1Gi",
		},
		"native names that quotas don't know": {newPod(with(box("c",
			"attachable-volumes-x=1,kubernetes.io/y=2,requests.example.com/z=3", ""))), one},
	} {
		t.Run(name, func(t *testing.T) {
			wantList(t, "usage", cost(t, pods, test.pod).Usage(), list(test.want))
		})
	}
}

// Numbers: TestPodEvaluatorUsageResourceResize in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods_test.go; allocated and infeasible by
// determineEffectiveRequests in k8s.io/component-helpers/resource/helpers.go.
func TestPodUsageInResize(t *testing.T) {
	status := func(actual, allocated string) podOption {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "c", Resources: &corev1.ResourceRequirements{Requests: list(actual)},
				AllocatedResources: list(allocated),
			}}
		}
	}
	infeasible := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending,
			Reason: corev1.PodReasonInfeasible}}
	}
	c := with(box("c", "cpu=100m,memory=200Mi", "cpu=200m,memory=400Mi"))
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"not begun":            {newPod(c), "cpu=100m,memory=200Mi"},
		"larger than actual":   {newPod(c, status("cpu=50m,memory=150Mi", "")), "cpu=100m,memory=200Mi"},
		"smaller than actual":  {newPod(c, status("cpu=150m,memory=250Mi", "")), "cpu=150m,memory=250Mi"},
		"smaller than granted": {newPod(c, status("cpu=50m", "cpu=170m,memory=10Mi")), "cpu=170m,memory=200Mi"},
		"infeasible": {newPod(c, status("cpu=50m,memory=50Mi", "cpu=60m,memory=40Mi"), infeasible),
			"cpu=60m,memory=50Mi"},
		"sidecar": {
			newPod(withInit(sidecar(box("s", "cpu=100m,memory=200Mi", ""))), func(pod *corev1.Pod) {
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s",
					Resources: &corev1.ResourceRequirements{Requests: list("cpu=150m")}}}
			}), "cpu=150m,memory=200Mi",
		},
		"status without any": {newPod(c,
			func(pod *corev1.Pod) { pod.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1) }),
			"cpu=100m,memory=200Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cost(t, pods, test.pod)
			for resource, want := range list(test.want) {
				for _, name := range []corev1.ResourceName{resource, "requests." + resource} {
					if amount := got.amount(name); amount == nil || amount.Cmp(want) != 0 {
						t.Errorf("%s is %v, want %s", name, amount, want.String())
					}
				}
			}
		})
	}
}

// Measuring keeps nothing of one pod for the next, and changes no pod.
func TestPodUsageIsApart(t *testing.T) {
	// More than an int64 holds: such quantities have a pointer in them, and could be changed
	// through copies.
	const both = "18446744073709551614"
	large, huge := largePod(), newPod(with(box("c", "memory=9223372036854775807,example.com/x=5", ""),
		box("d", "memory=9223372036854775807", "")))
	before := huge.DeepCopy()
	first := cost(t, pods, huge)
	usage := first.Usage()
	for range 3 {
		cost(t, pods, large)
		wantList(t, "usage of the next", cost(t, pods, usualPod()).Usage(),
			list("count/pods=1,pods=1,cpu=100m,requests.cpu=100m,limits.cpu=200m,memory=128Mi,requests.memory=128Mi,"+
				"limits.memory=256Mi"))
	}
	wantList(t, "usage", first.Usage(), usage)
	wantList(t, "the pod's requests", huge.Spec.Containers[0].Resources.Requests,
		before.Spec.Containers[0].Resources.Requests)
	if got := usage["memory"]; got.String() != both {
		t.Errorf("memory is %s", got.String())
	}
	// Changing what Usage returns doesn't change the cost.
	memory := usage["memory"]
	memory.Add(resource.MustParse("1Ei"))
	usage["memory"] = memory
	if got := first.amount("memory"); got.String() != both {
		t.Errorf("memory became %s", got.String())
	}
}

// By QuotaV1Pod in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func TestExpires(t *testing.T) {
	pod := newPod(with(box("c", "cpu=1", "")), deleted(noon, 30))
	c := cost(t, pods, pod)
	if want := noon.Add(30 * time.Second); !c.ExpiresAt().Equal(want) {
		t.Errorf("expires at %s, want %s", c.ExpiresAt(), want)
	}
	at := func(now time.Time) *Cost {
		c, err := Meter{Now: func() time.Time { return now }}.CostOf(pods, pod)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if got := len(at(c.ExpiresAt()).uses); got == 1 {
		t.Error("expired too early")
	}
	late := at(c.ExpiresAt().Add(1))
	wantList(t, "usage after", late.Usage(), list("count/pods=1"))
	if !late.ExpiresAt().IsZero() {
		t.Errorf("expires again at %s", late.ExpiresAt())
	}
	if !c.DependsOnTime() || !late.DependsOnTime() {
		t.Error("costs the same at any time")
	}
	if got := c.CostAt(c.ExpiresAt()); got != c {
		t.Errorf("is something else before it expires: %v", got)
	}
	if got := c.CostAt(c.ExpiresAt().Add(1)); !reflect.DeepEqual(got, late) {
		t.Errorf("becomes %v, want %v", got, late)
	}
	for name, pod := range map[string]*corev1.Pod{
		"not deleted": newPod(),
		"ended":       newPod(deleted(noon, 30), inPhase(corev1.PodFailed)),
		"at once":     newPod(deleted(noon.Add(time.Hour), 0)), // by a server whose clock is ahead
		// What the API makes of 317 years, of the first period that no Duration holds and of one
		// that overflows to a few seconds.
		"in 317 years":      newPod(deleted(noon.Add(overflowing(10_000_000_000)), 10_000_000_000)),
		"in 292 years":      newPod(deleted(noon.Add(overflowing(9_223_372_037)), 9_223_372_037)),
		"in twice that":     newPod(deleted(noon.Add(overflowing(18_446_744_078)), 18_446_744_078)),
		"at the end of all": newPod(deleted(noon, math.MaxInt64)),
	} {
		if c := cost(t, pods, pod); !c.ExpiresAt().IsZero() || c.DependsOnTime() || c.CostAt(noon.Add(time.Hour)) != c {
			t.Errorf("%s: expires at %s", name, c.ExpiresAt())
		}
	}
	for _, grace := range []int64{10_000_000_000, 9_223_372_037, 18_446_744_078, math.MaxInt64} {
		pod := newPod(with(box("c", "cpu=1", "")), deleted(noon.Add(overflowing(grace)), grace))
		wantList(t, "usage", cost(t, pods, pod).Usage(), list("count/pods=1,pods=1,cpu=1,requests.cpu=1"))
	}
	if c, err := CostOf(pods, pod); err != nil || (time.Now().Before(c.ExpiresAt()) != (len(c.uses) > 1)) {
		t.Errorf("without a clock: %v, %v", c, err)
	}
	var none *Cost
	if !none.ExpiresAt().IsZero() || none.DependsOnTime() || none.CostAt(noon) != nil || len(none.Usage()) != 0 {
		t.Error("no cost uses something")
	}
}

// overflowing is n seconds as BeforeDelete in k8s.io/apiserver/pkg/registry/rest/delete.go has
// them.
func overflowing(n int64) time.Duration { return time.Duration(n) * time.Second }

// Source: TestPodConstraintsFunc in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods_test.go.
func TestMissing(t *testing.T) {
	cpu := func(name string) corev1.Container { return box(name, "cpu=1m", "cpu=2m") }
	for name, test := range map[string]struct {
		pod        *corev1.Pod
		hard, want string
	}{
		"init container resource missing": {newPod(withInit(cpu("dummy"))), "memory=1",
			"must specify memory for: dummy"},
		"multiple init container resource missing": {newPod(withInit(cpu("foo"), cpu("bar"))), "memory=1",
			"must specify memory for: bar,foo"},
		"container resource missing": {newPod(with(cpu("dummy"))), "memory=1",
			"must specify memory for: dummy"},
		"container resource missing multiple": {
			newPod(with(box("foo", "", ""), box("bar", "", ""))), "memory=1,cpu=1",
			"must specify cpu for: bar,foo; memory for: bar,foo",
		},
		"containers of both sorts": {newPod(withInit(box("b", "", "")), with(box("c", "", ""), box("a", "cpu=1", ""))),
			"cpu=1", "must specify cpu for: b,c"},
		"pod-level resource set, container-level required resources missing": {
			newPod(podLevel("cpu=1m", ""), with(box("foo", "", ""), box("bar", "", ""))), "memory=1,cpu=1", "",
		},
		"pod-level resources empty": {newPod(podLevel("", ""), with(box("foo", "", ""))), "cpu=1",
			"must specify cpu for: foo"},
		"all that is demanded": {
			newPod(with(box("c", "", ""))),
			"requests.cpu=1,requests.memory=1,limits.cpu=1,limits.memory=1,cpu=1,memory=1",
			"must specify cpu for: c; limits.cpu for: c; limits.memory for: c; memory for: c; requests.cpu for: c; " +
				"requests.memory for: c",
		},
		"nothing else is demanded": {newPod(with(box("c", "", ""))),
			"pods=1,ephemeral-storage=1,requests.ephemeral-storage=1,hugepages-2Mi=1,requests.example.com/x=1", ""},
		"zero is stated": {newPod(with(box("c", "cpu=0", ""))), "cpu=1,requests.cpu=1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cost(t, pods, test.pod).omissionMessage(list(test.hard)); got != test.want {
				t.Errorf("\n got %q\nwant %q", got, test.want)
			}
		})
	}
}

// As ComputePodQOS in k8s.io/kubernetes/pkg/apis/core/v1/helper/qos, as far as it tells best effort from the
// other two.
func TestIsBestEffort(t *testing.T) {
	list := func(name corev1.ResourceName, quantity string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse(quantity)}}
	}
	says := func(r corev1.ResourceRequirements) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{}, {Resources: r}}}
	}
	initially := corev1.PodSpec{InitContainers: []corev1.Container{{Resources: list("cpu", "1m")}}}
	itself, nothingItself := list("memory", "1Mi"), corev1.ResourceRequirements{}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		off  Gates
		want bool
	}{
		"no containers": {corev1.PodSpec{}, 0, true},
		"nothing":       {says(nothingItself), 0, true},
		"cpu":           {says(list("cpu", "1m")), 0, false},
		"memory":        {says(list("memory", "1")), 0, false},
		"request": {says(
			corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}), 0, false},
		"zero":              {says(list("cpu", "0")), 0, true},
		"another resource":  {says(list("example.com/gpu", "1")), 0, true},
		"an init container": {initially, 0, false},
		"the pod itself":    {corev1.PodSpec{Resources: &itself}, 0, false},
		"the pod itself, nothing": {corev1.PodSpec{Resources: &nothingItself,
			Containers: says(list("cpu", "1")).Containers}, 0, false},
		"the pod itself, nothing, before 1.37": {corev1.PodSpec{Resources: &nothingItself,
			Containers: says(list("cpu", "1")).Containers}, PodLevelResourcesFixKubeletQOSClass, true},
		"the pod itself, before 1.34": {corev1.PodSpec{Resources: &itself,
			Containers: says(nothingItself).Containers}, PodLevelResources, true},
		"the pod itself, not containers": {corev1.PodSpec{Resources: &itself,
			Containers: says(nothingItself).Containers}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsBestEffort(&corev1.Pod{Spec: test.spec}, test.off); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
