// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestApply(t *testing.T) {
	cpu := func(amount string, options ...podOption) *corev1.Pod {
		return newPod(append(options, with(box("c", "cpu="+amount, "")))...)
	}
	yes := newQuota("yes", "pods=2,cpu=4", "pods=1,cpu=2", scoped(terminating))
	no := newQuota("no", "pods=2,cpu=4", "pods=1,cpu=2", scoped(notTerminating))
	all := newQuota("all", "pods=2,cpu=4,services=3", "pods=1,cpu=2,services=1")
	other := newQuota("other", "services=2,requests.storage=1Gi", "services=1,requests.storage=0")
	quotas := []*corev1.ResourceQuota{other, no, yes, all}
	for name, test := range map[string]struct {
		resource schema.GroupResource
		old, new runtime.Object
		want     string
	}{
		"create":              {pods, nil, cpu("1"), "no: cpu=3,pods=2; all: cpu=3,pods=2,services=1"},
		"create of too much":  {pods, nil, cpu("10"), "no: cpu=12,pods=2; all: cpu=12,pods=2,services=1"},
		"delete":              {pods, cpu("1"), nil, "no: cpu=1,pods=0; all: cpu=1,pods=0,services=1"},
		"delete of too much":  {pods, cpu("10"), nil, "no: cpu=0,pods=0; all: cpu=0,pods=0,services=1"},
		"grow":                {pods, cpu("1"), cpu("1500m"), "no: cpu=2500m,pods=1; all: cpu=2500m,pods=1,services=1"},
		"shrink":              {pods, cpu("1"), cpu("500m"), "no: cpu=1500m,pods=1; all: cpu=1500m,pods=1,services=1"},
		"nothing":             {pods, cpu("1"), cpu("1"), ""},
		"what no quota knows": {pods, newPod(), newPod(with(box("c", "memory=1Gi", ""))), ""},
		"end": {pods, cpu("1"), cpu("1", inPhase(corev1.PodSucceeded)),
			"no: cpu=1,pods=0; all: cpu=1,pods=0,services=1"},
		"delete after end": {pods, cpu("1", inPhase(corev1.PodSucceeded)), nil, ""},
		"another scope":    {pods, cpu("1"), cpu("1", deadline(5)), "no: cpu=1,pods=0; yes: cpu=3,pods=2"},
		"another scope, grown": {pods, cpu("1"), cpu("2", deadline(5)),
			"no: cpu=1,pods=0; yes: cpu=4,pods=2; all: cpu=3,pods=1,services=1"},
		"service": {services, nil, newService(corev1.ServiceTypeClusterIP, nil),
			"other: requests.storage=0,services=2; all: cpu=2,pods=1,services=2"},
		"claim": {persistentVolumeClaims, nil, newPVC("5Gi", "gold"), "other: requests.storage=5Gi,services=1"},
	} {
		t.Run(name, func(t *testing.T) {
			var before []*corev1.ResourceQuota
			for _, q := range quotas {
				before = append(before, q.DeepCopy())
			}
			c := change(t, test.resource, test.old, test.new)
			if got := usage(c.Apply(quotas)); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
			if test.want != "" && !c.MovesUsage() {
				t.Error("says that it doesn't move")
			}
			for i := range quotas {
				wantList(t, "status.used of the original", quotas[i].Status.Used, before[i].Status.Used)
			}
		})
	}
}

// What a status hasn't counted yet isn't guessed, and what isn't limited any more goes.
func TestApplyToStaleStatus(t *testing.T) {
	q := newQuota("q", "pods=5,cpu=4", "pods=1,memory=3Gi")
	q.Status.Hard = list("pods=5,memory=8Gi")
	q.Labels = map[string]string{"a": "b"}
	moved := change(t, pods, nil, newPod(with(box("c", "cpu=1,memory=1Gi", "")))).Apply([]*corev1.ResourceQuota{q})
	if len(moved) != 1 {
		t.Fatalf("moved %d", len(moved))
	}
	m := moved[0]
	wantList(t, "status.used", m.Status.Used, list("pods=2"))
	wantList(t, "status.hard", m.Status.Hard, list("pods=5,cpu=4"))
	wantList(t, "status.hard of the original", q.Status.Hard, list("pods=5,memory=8Gi"))
	if m.Name != "q" || m.ResourceVersion != "7" || m.Labels["a"] != "b" {
		t.Errorf("metadata is lost: %v", m.ObjectMeta)
	}
	if IsUsageKnown(q) || IsUsageKnown(m) {
		t.Error("usage of cpu is taken for known")
	}

	fresh := newQuota("q", "pods=5", "")
	fresh.Status = corev1.ResourceQuotaStatus{}
	if moved := change(t, pods, nil, newPod()).Apply([]*corev1.ResourceQuota{fresh}); moved != nil {
		t.Errorf("moved a quota that nothing is known of: %s", usage(moved))
	}
}

func TestApplyIsExact(t *testing.T) {
	// More than an int64, fractions below a milli, mixed formats.
	const huge = "9223372036854775807"
	q := newQuota("q", "memory=1,cpu=1,requests.storage=1", "memory="+huge+",cpu=1n,requests.storage=0")
	moved := change(t, pods, nil,
		newPod(with(box("c", "memory="+huge+",cpu=2n", "")))).Apply([]*corev1.ResourceQuota{q})
	if got := moved[0].Status.Used["memory"]; got.String() != "18446744073709551614" {
		t.Errorf("memory is %s", got.String())
	}
	if got := moved[0].Status.Used["cpu"]; got.Cmp(resource.MustParse("3n")) != 0 {
		t.Errorf("cpu is %s", got.String())
	}
	for range 2 {
		// The result's quantities are its own.
		change(t, pods, nil, newPod(with(box("c", "memory="+huge, "")))).Apply(moved)
	}
	if got := moved[0].Status.Used["memory"]; got.String() != "18446744073709551614" {
		t.Errorf("memory became %s", got.String())
	}
	back := change(t, pods, newPod(with(box("c", "memory="+huge+",cpu=2n", ""))), nil).Apply(moved)
	wantList(t, "used after create and delete", back[0].Status.Used, q.Status.Used)

	// A change's costs stay as they are however often it is applied.
	grow := change(t, pods, usualPod(), newPod(with(box("c", "memory="+huge, ""), box("d", "memory="+huge, ""))))
	for range 2 {
		grow.Apply([]*corev1.ResourceQuota{q})
	}
	if got := grow.New.amount("memory"); got.String() != "18446744073709551614" {
		t.Errorf("the cost became %s", got.String())
	}

	// The form in which amounts are written stays that of users.
	claims := change(t, persistentVolumeClaims, nil,
		newPVC("1536Mi", "")).Apply([]*corev1.ResourceQuota{newQuota("q", "requests.storage=1", "requests.storage=0")})
	if got := usage(claims); got != "q: requests.storage=1536Mi" {
		t.Errorf("got %s", got)
	}
}

func TestMoves(t *testing.T) {
	class := func(name string) *corev1.PersistentVolumeClaim {
		pvc := newPVC("1Gi", "")
		pvc.Spec.VolumeAttributesClassName = &name
		return pvc
	}
	event := schema.GroupResource{Resource: "events"}
	for name, test := range map[string]struct {
		resource schema.GroupResource
		old, new runtime.Object
		want     bool
	}{
		"nothing":                  {pods, nil, nil, false},
		"create":                   {configMaps, nil, marker("c"), true},
		"update":                   {configMaps, marker("c"), marker("c"), false},
		"delete":                   {configMaps, marker("c"), nil, true},
		"create of what's ignored": {event, nil, marker("e"), false},
		"delete of what's ignored": {event, marker("e"), nil, false},
		"same pod":                 {pods, largePod(), largePod(), false},
		"status of a pod": {pods, newPod(inPhase(corev1.PodPending)), newPod(inPhase(corev1.PodRunning)),
			false},
		"end of a pod": {pods, newPod(inPhase(corev1.PodRunning)), newPod(inPhase(corev1.PodFailed)), true},
		"more": {pods, newPod(with(box("c", "cpu=1", ""))), newPod(with(box("c", "cpu=2", ""))),
			true},
		"same, otherwise written": {pods, newPod(with(box("c", "cpu=1", ""))), newPod(with(box("c", "cpu=1000m", ""))),
			false},
		"other names": {pods, newPod(with(box("c", "hugepages-2Mi=1", ""))),
			newPod(with(box("c", "hugepages-1Gi=1", ""))), true},
		"more names": {pods, newPod(with(box("c", "hugepages-2Mi=1", ""))),
			newPod(with(box("c", "hugepages-2Mi=1,cpu=1", ""))), true},
		"deadline":       {pods, newPod(), newPod(deadline(1)), true},
		"other deadline": {pods, newPod(deadline(2)), newPod(deadline(1)), false},
		"priority class": {pods, newPod(ofClass("a")), newPod(ofClass("b")), true},
		"service type": {services, newService(corev1.ServiceTypeClusterIP, nil, 0),
			newService(corev1.ServiceTypeNodePort, nil, 0), true},
		"service port": {services, newService(corev1.ServiceTypeClusterIP, nil, 0),
			newService(corev1.ServiceTypeClusterIP, nil, 0, 0), false},
		"attributes class":      {persistentVolumeClaims, class("a"), class("b"), true},
		"same attributes class": {persistentVolumeClaims, class("a"), class("a"), false},
	} {
		if got := change(t, test.resource, test.old, test.new).MovesUsage(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestTotal(t *testing.T) {
	high := func(phase corev1.PodPhase) *Cost {
		return cost(t, pods, newPod(ofClass("high"), inPhase(phase), with(box("c", "cpu=1", "cpu=1"))))
	}
	low := cost(t, pods, newPod(ofClass("low"), inPhase(corev1.PodRunning), with(box("c", "cpu=1", "cpu=1"))))
	const names = "pods=0,count/pods=0,cpu=0,requests.cpu=0,limits.cpu=0"
	// Source: TestPodEvaluatorUsageStats in
	// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods_test.go.
	for name, test := range map[string]struct {
		q     *corev1.ResourceQuota
		costs []*Cost
		want  string
	}{
		"nil case": {newQuota("q", names, ""), nil, names},
		"all pods in running state": {newQuota("q", names, ""), []*Cost{low, low},
			"pods=2,count/pods=2,cpu=2,requests.cpu=2,limits.cpu=2"},
		"one pods in terminal state": {newQuota("q", names, ""), []*Cost{low, high(corev1.PodSucceeded)},
			"pods=1,count/pods=2,cpu=1,requests.cpu=1,limits.cpu=1"},
		"partial pods matching quotaScopeSelector": {
			newQuota("q", names, "", selecting(priorityClass, in, "high")),
			[]*Cost{high(corev1.PodRunning), high(corev1.PodSucceeded), low},
			"pods=1,count/pods=2,cpu=1,requests.cpu=1,limits.cpu=1",
		},
		"partial pods matching quotaScopeSelector - w/ multiple scopeNames specified": {
			newQuota("q", "pods=0,count/pods=0", "", scoped(priorityClass, bestEffort),
				selecting(priorityClass, in, "high")),
			[]*Cost{high(corev1.PodRunning), low, cost(t, pods, newPod(ofClass("high"), inPhase(corev1.PodFailed)))},
			"pods=0,count/pods=1",
		},
		"only what is limited, and all of that": {
			newQuota("q", "cpu=5,services=3,count/foos.example.com=1,example.com/unknown=1", ""),
			[]*Cost{low, nil, cost(t, configMaps, marker("c")), cost(t, services, newService("", nil))},
			"cpu=1,services=1,count/foos.example.com=0,example.com/unknown=0",
		},
		"nothing limited": {newQuota("q", "", ""), []*Cost{low}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Total(test.q, slices.Values(test.costs))
			wantList(t, "total", got, list(test.want))
			test.q.Status.Used = got
			if !IsUsageKnown(test.q) {
				t.Error("usage isn't known after it was computed")
			}
		})
	}
	costs := []*Cost{cost(t, pods, newPod(with(box("c", "memory=9223372036854775807", ""))))}
	costs = append(costs, costs[0], costs[0])
	before := costs[0].Usage()
	Total(newQuota("q", "memory=1", ""), slices.Values(costs))
	wantList(t, "a cost after it was summed", costs[0].Usage(), before)
}

func TestKnown(t *testing.T) {
	for _, test := range []struct {
		hard, used string
		want       bool
	}{
		{"pods=1", "pods=0", true}, {"pods=1", "", false}, {"pods=1,cpu=1", "pods=0", false},
		{"pods=1", "pods=0,cpu=1", true}, {"", "", true},
	} {
		if got := IsUsageKnown(newQuota("q", test.hard, test.used)); got != test.want {
			t.Errorf("hard %q, used %q: %t", test.hard, test.used, got)
		}
	}
}
