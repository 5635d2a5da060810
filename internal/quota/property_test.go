// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// world is a namespace that is written to at random.
type world struct {
	*rand.Rand
	now     time.Time
	objects map[int]object
	quotas  []*corev1.ResourceQuota
	next    int
}

type object struct {
	resource schema.GroupResource
	is       runtime.Object
}

var worldNames = []string{
	"pods", "count/pods", "cpu", "memory", "requests.cpu", "limits.cpu", "limits.memory", "requests.ephemeral-storage",
	"hugepages-2Mi", "requests.example.com/gpu",
	"services", "services.nodeports", "services.loadbalancers", "count/services", "configmaps", "count/configmaps",
	"count/deployments.apps",
	"persistentvolumeclaims", "requests.storage", "gold.storageclass.storage.k8s.io/requests.storage",
	"gold.storageclass.storage.k8s.io/persistentvolumeclaims",
	"gpu.deviceclass.resource.k8s.io/devices", "requests.deviceclass.resource.kubernetes.io/gpu", "example.com/nothing",
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), now: noon, objects: map[int]object{}}
	for i := range 1 + w.IntN(4) {
		q := newQuota(fmt.Sprintf("q%d", i), "", "")
		for range 1 + w.IntN(6) {
			name := worldNames[w.IntN(len(worldNames))]
			hard := fmt.Sprint(w.IntN(12))
			if strings.Contains(name, "storage") || strings.Contains(name, "memory") {
				hard += "Gi"
			}
			maps.Copy(q.Spec.Hard, list(name+"="+hard))
		}
		for _, option := range []quotaOption{
			scoped(terminating), scoped(notTerminating), scoped(bestEffort), scoped(notBestEffort, notTerminating),
			scoped(priorityClass),
			selecting(priorityClass, in, "high", "low"), selecting(priorityClass, notIn, "high"),
			selecting(priorityClass, doesNotExist),
			selecting(attributes, in, "fast"), selecting(attributes, notIn, "fast"), selecting(attributes, exists),
		} {
			if w.IntN(16) == 0 {
				option(q)
			}
		}
		w.quotas = append(w.quotas, q)
	}
	for i, q := range w.quotas {
		w.quotas[i] = Change{}.withUsage(q, Total(q, w.costs()))
	}
	return w
}

func (w *world) cost(o object) *Cost {
	c, err := Meter{Now: func() time.Time { return w.now }}.CostOf(o.resource, o.is)
	if err != nil {
		panic(err)
	}
	return c
}

func (w *world) costs() iter.Seq[*Cost] {
	return func(yield func(*Cost) bool) {
		for _, o := range w.objects {
			if !yield(w.cost(o)) {
				return
			}
		}
	}
}

func (w *world) amount(format string) string { return fmt.Sprintf(format, w.IntN(5)) }

// any returns some object: of the resource, unless that is empty.
func (w *world) any(resource schema.GroupResource) object {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	if resource.Empty() {
		all := []schema.GroupResource{pods, pods, pods, services, persistentVolumeClaims, resourceClaims, configMaps,
			deployments}
		resource = all[w.IntN(len(all))]
	}
	switch resource {
	case pods:
		return object{resource, w.pod()}
	case services:
		types := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
			corev1.ServiceTypeLoadBalancer}
		allocate := w.IntN(2) == 0
		return object{resource, newService(types[w.IntN(3)], &allocate, make([]int32, w.IntN(4))...)}
	case persistentVolumeClaims:
		pvc := newPVC(w.amount("%dGi"), []string{"", "gold"}[w.IntN(2)])
		pvc.Status.AllocatedResources = list("storage=" + w.amount("%dGi"))
		pvc.Spec.VolumeAttributesClassName = &[]string{"", "fast", "slow"}[w.IntN(3)]
		pvc.Status.CurrentVolumeAttributesClassName = &[]string{"", "fast"}[w.IntN(2)]
		return object{resource, pvc}
	case resourceClaims:
		return object{resource, newClaim(exactly([]string{"gpu", "tpu"}[w.IntN(2)], w.Int64N(4)))}
	}
	return object{resource, marker("x")}
}

func (w *world) pod() *corev1.Pod {
	resources := func() string {
		var all []string
		for _, form := range []string{"cpu=%d00m", "cpu=%d", "memory=%dGi", "ephemeral-storage=%dGi",
			"hugepages-2Mi=%d", "example.com/gpu=%d"} {
			if w.IntN(2) == 0 {
				all = append(all, w.amount(form))
			}
		}
		return strings.Join(all, ",")
	}
	pod := newPod(with(box("a", resources(), resources()), box("b", resources(), resources())))
	for _, option := range []podOption{
		withInit(sidecar(box("s", resources(), "")), box("i", resources(), resources())), with(box("c", "", "")),
		overhead("cpu=1"), podLevel(w.amount("cpu=%d"), "memory=4Gi"),
		ofClass("high"), ofClass("low"), ofClass("other"), deadline(5), inPhase(corev1.PodSucceeded),
		deleted(w.now, w.Int64N(60)),
		func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a",
				Resources: &corev1.ResourceRequirements{Requests: list(resources())}}}
		},
	} {
		if w.IntN(6) == 0 {
			option(pod)
		}
	}
	return pod
}

// write makes one change, by way of which it returns the quotas that have moved.
func (w *world) write(by func(Change) ([]*corev1.ResourceQuota, error)) (c Change, moved []*corev1.ResourceQuota,
	err error) {
	key := w.next
	var before, after *object
	if existing := slices.Sorted(maps.Keys(w.objects)); len(existing) > 0 && w.IntN(3) > 0 {
		key = existing[w.IntN(len(existing))]
		o := w.objects[key]
		before, c.Old, c.Resource = &o, w.cost(o), o.resource
	}
	if before == nil || w.IntN(3) > 0 {
		o := w.any(c.Resource)
		after, c.New, c.Resource = &o, w.cost(o), o.resource
	}
	if moved, err = by(c); err != nil {
		return c, moved, err
	}
	for _, m := range moved {
		w.quotas[slices.IndexFunc(w.quotas, func(q *corev1.ResourceQuota) bool { return q.Name == m.Name })] = m
	}
	if w.next++; after == nil {
		delete(w.objects, key)
	} else {
		w.objects[key] = *after
	}
	return c, moved, nil
}

func (w *world) wantTotals(t *testing.T, when string) {
	t.Helper()
	for _, q := range w.quotas {
		if total := Total(q, w.costs()); !equalLists(q.Status.Used, total) {
			t.Fatalf("%s: quota %s has status.used\n%s\nof\n%s", when, q.Name, show(q.Status.Used), show(total))
		}
		if !equalLists(q.Status.Hard, q.Spec.Hard) {
			t.Fatalf("%s: quota %s has status.hard %s of %s", when, q.Name, show(q.Status.Hard), show(q.Spec.Hard))
		}
	}
}

func seeds(t *testing.T) uint64 {
	if testing.Short() {
		return 50
	}
	return 400
}

// Whatever is written, what changes add up to is what Total says of the objects that are there.
func TestApplyAddsUp(t *testing.T) {
	for seed := range seeds(t) {
		w := newWorld(seed)
		for step := range 60 {
			when := fmt.Sprintf("seed %d, step %d", seed, step)
			before := slices.Clone(w.quotas)
			c, moved, _ := w.write(func(c Change) ([]*corev1.ResourceQuota, error) { return c.Apply(w.quotas), nil })
			w.wantTotals(t, when)
			if len(moved) > 0 && !c.MovesUsage() {
				t.Fatalf("%s: moved quotas without moving", when)
			}
			for i, q := range w.quotas {
				if isMoved := slices.Contains(moved, q); isMoved == equalLists(q.Status.Used, before[i].Status.Used) {
					t.Fatalf("%s: quota %s moved: %t, from %s to %s", when, q.Name, isMoved,
						show(before[i].Status.Used), show(q.Status.Used))
				}
			}
		}
	}
}

// What is admitted never makes more used than is allowed, and nothing is refused while there is
// room for it.
func TestAdmitIsExact(t *testing.T) {
	var admitted, refused, wrong int
	for seed := range seeds(t) {
		w := newWorld(seed)
		for step := range 60 {
			when := fmt.Sprintf("seed %d, step %d", seed, step)
			_, _, err := w.write(func(c Change) ([]*corev1.ResourceQuota, error) {
				over, unstated := w.wouldExceed(c)
				moved, err := c.Admit(w.quotas, nil)
				if (err != nil) != (over != "" || unstated) {
					t.Fatalf("%s: error %v, exceeded %q, unstated %t", when, err, over, unstated)
				}
				if err == nil {
					admitted++
				} else if over != "" {
					refused++
					if !strings.Contains(err.Error(), over) {
						t.Fatalf("%s: error %v doesn't say %s", when, err, over)
					}
				} else {
					wrong++
				}
				return moved, err
			})
			_ = err
			w.wantTotals(t, when)
			for _, q := range w.quotas {
				for name, used := range q.Status.Used {
					if hard := q.Spec.Hard[name]; used.Cmp(hard) > 0 {
						t.Fatalf("%s: quota %s uses %s of %s %s", when, q.Name, used.String(), hard.String(), name)
					}
				}
			}
		}
	}
	t.Logf("%d admitted, %d refused for limits, %d for what isn't stated", admitted, refused, wrong)
	if admitted < 100 || refused < 100 || wrong < 100 {
		t.Error("the test doesn't try all cases")
	}
}

// wouldExceed finds out by adding all up whether the change exceeds a limit, and in which quota and
// name first.
func (w *world) wouldExceed(c Change) (over string, unstated bool) {
	after := func(yield func(*Cost) bool) {
		if !yield(c.New) {
			return
		}
		left := false
		for _, o := range w.objects {
			cost := w.cost(o)
			// One object that is as the old one leaves: which of them makes no difference to sums.
			if !left && c.Old != nil && haveSameScopes(cost, c.Old) && equalLists(cost.Usage(), c.Old.Usage()) {
				left = true
				continue
			}
			if !yield(cost) {
				return
			}
		}
	}
	for _, q := range w.quotas {
		if c.New != nil && c.MovesUsage() && c.New.scopedTo(q) != nil && c.New.omissionMessage(q.Spec.Hard) != "" {
			unstated = true
		}
		was, is := Total(q, w.costs()), Total(q, after)
		for _, name := range slices.Sorted(maps.Keys(is)) {
			amount, hard := is[name], q.Spec.Hard[name]
			if amount.Cmp(hard) > 0 && amount.Cmp(was[name]) > 0 && over == "" {
				over = fmt.Sprintf("exceeded quota: %s, requested: %s=", q.Name, name)
			}
		}
	}
	return over, unstated
}

// Pods whose time is up cost nothing from then on: after the total is taken again, changes add up
// as before, and until then usage is too high rather than too low.
func TestTimePasses(t *testing.T) {
	for seed := range seeds(t) / 4 {
		w := newWorld(seed)
		for step := range 60 {
			when := fmt.Sprintf("seed %d, step %d", seed, step)
			w.now = w.now.Add(time.Duration(w.IntN(20)) * time.Second)
			_, _, _ = w.write(func(c Change) ([]*corev1.ResourceQuota, error) { return c.Apply(w.quotas), nil })
			for i, q := range w.quotas {
				total := Total(q, w.costs())
				for name, amount := range total {
					if used := q.Status.Used[name]; used.Cmp(amount) < 0 {
						t.Fatalf("%s: quota %s says that %s of %s is used, not %s", when, q.Name, used.String(), name,
							amount.String())
					}
				}
				if w.IntN(4) == 0 {
					w.quotas[i] = Change{}.withUsage(q, total)
				}
			}
		}
	}
}
