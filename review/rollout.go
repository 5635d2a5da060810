package review

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gatehouse.dev/apiserver"
)

// A rollout is which pods a controller makes for a workload, at first: all of a new one; of one
// that is updated those that come beside what is there, until some of that goes.
type rollout struct {
	// pods is how many are made, first the ordinal of the first among a StatefulSet's.
	pods, first int64
	// update says that there are pods of it already, same that they are as they are to be, replaced
	// that each takes the place of one.
	update, same, replaced bool
	// freed is how many pods go before any is made.
	freed int64
}

// wanted is how many pods there are to be of a workload, a DaemonSet excepted.
func wanted(owner *unstructured.Unstructured) int64 {
	switch owner.GetKind() {
	case "Job":
		if suspended, _, _ := unstructured.NestedBool(owner.Object, "spec", "suspend"); suspended {
			return 0
		}
		parallelism := number(owner, 1, "spec", "parallelism")
		return min(parallelism, number(owner, parallelism, "spec", "completions"))
	}
	return number(owner, 1, "spec", "replicas")
}

// running is how many pods a workload has, as its status says.
func running(owner *unstructured.Unstructured) int64 {
	switch owner.GetKind() {
	case "Job":
		return number(owner, 0, "status", "active")
	case "DaemonSet":
		return number(owner, 0, "status", "currentNumberScheduled")
	}
	return number(owner, 0, "status", "replicas")
}

// rolloutOf is which pods are made for a workload that was another before; nil for none.
func rolloutOf(owner, before *unstructured.Unstructured) rollout {
	all := wanted(owner)
	if before == nil || running(before) == 0 {
		return rollout{pods: all}
	}
	there := running(before)
	template := func(o *unstructured.Unstructured) any {
		fields, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
		return fields
	}
	more := max(0, all-there)
	now := rollout{update: true, pods: more, first: there,
		same: equality.Semantic.DeepEqual(template(owner), template(before))}
	strategy, _, _ := unstructured.NestedString(owner.Object, "spec", "updateStrategy", "type")
	switch kind := owner.GetKind(); {
	case kind == "DaemonSet" && (now.same || strategy == "OnDelete"):
		now.pods = 0
	case now.same || strategy == "OnDelete":
	case kind == "Deployment":
		if of, _, _ := unstructured.NestedString(owner.Object, "spec", "strategy", "type"); of == "Recreate" {
			now.pods, now.freed = all, there
		} else if now.pods = min(all, more+surge(owner, all)); now.pods == 0 && all > 0 {
			now.pods, now.freed = 1, 1
		}
	case kind == "StatefulSet" && more == 0 && all > 0:
		now = rollout{update: true, pods: 1, first: all - 1, replaced: true, freed: 1}
	case kind == "DaemonSet":
		now = rollout{update: true, pods: 1, replaced: true, freed: 1}
	}
	return now
}

// surge is how many pods a Deployment may have beside those that it wants.
func surge(owner *unstructured.Unstructured, all int64) int64 {
	value := intstr.FromString("25%")
	field, _, _ := unstructured.NestedFieldNoCopy(owner.Object, "spec", "strategy", "rollingUpdate", "maxSurge")
	switch field := field.(type) {
	case int64:
		value = intstr.FromInt32(int32(field))
	case string:
		value = intstr.FromString(field)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(all), true)
	if err != nil {
		return 0 // it isn't valid, and so not here
	}
	return int64(n)
}

// free gives back to quotas what pods use that go. They aren't there, so one is made, as plugins
// would change it, to see what it is charged. It stays: it is one of those that the workload has.
func (r *Reviewer) free(ctx context.Context, owner *unstructured.Unstructured, pods int64) error {
	if pods == 0 {
		return nil
	}
	before, err := r.quotas(ctx, owner.GetNamespace())
	if err != nil || len(before) == 0 {
		return err
	}
	pod := podOf(owner, nil)()
	mapping, err := r.cluster.find(pod)
	if err != nil {
		return err
	}
	a, err := r.cluster.do(apiserver.WithoutValidation(ctx), call{verb: http.MethodPost, resource: *mapping,
		namespace: owner.GetNamespace(), body: pod, as: controller("replicaset-controller")})
	if err != nil {
		return err
	}
	if !a.ok() {
		return errors.New(a.message())
	}
	charged, err := r.quotas(ctx, owner.GetNamespace())
	if err != nil {
		return err
	}
	for name, quota := range charged {
		used := corev1.ResourceList{}
		for resource, now := range quota.Status.Used {
			is := before[name].Status.Used[resource]
			now.Sub(is) // what one pod costs
			for range pods {
				is.Sub(now)
			}
			if is.Sign() < 0 {
				is.Sub(is)
			}
			used[resource] = is
		}
		quota.Status.Used = used
		if err := r.state(ctx, quota); err != nil {
			return err
		}
	}
	return nil
}
