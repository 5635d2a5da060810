// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/apiserver"
)

// giveBackQuota gives back to quotas what removed pods used. The pods aren't stored here, so it
// creates one, with the changes of plugins, to see its charge. That pod stays, as one of the
// workload's own.
func (r *Reviewer) giveBackQuota(ctx context.Context, pod *corev1.Pod, pods int32) error {
	before, err := r.quotas(ctx, pod.Namespace)
	if err != nil || len(before) == 0 {
		return err
	}
	object, err := unstructuredOf(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil {
		return err
	}
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
	a, err := r.cluster.do(apiserver.WithoutValidation(ctx), call{verb: http.MethodPost, resource: *mapping,
		namespace: pod.Namespace, body: object, as: controllerAccount("replicaset-controller")})
	if err != nil {
		return err
	}
	if !a.ok() {
		return fmt.Errorf("the pods that it replaces: %s", a.message())
	}
	if _, err := r.addClaims(apiserver.WithoutValidation(ctx), &Pods{}, a.object); err != nil {
		return err
	}
	charged, err := r.quotas(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	for name, quota := range charged {
		used := corev1.ResourceList{}
		for resource, now := range quota.Status.Used {
			is := before[name].Status.Used[resource]
			now.Sub(is) // what one pod costs
			now.Mul(int64(pods))
			is.Sub(now)
			if is.Sign() < 0 {
				is.Sub(is)
			}
			used[resource] = is
		}
		quota.Status.Used = used
		if err := r.storeUsage(ctx, quota); err != nil {
			return err
		}
	}
	return nil
}
