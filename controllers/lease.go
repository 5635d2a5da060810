// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/lease"
)

// leaseName is the Lease in kube-system that the leader holds.
const leaseName = "gatehouse-controllers"

// ErrLeaseLost is Run's error when the lease could not be renewed in time. Everything that ran has
// ended by then, so Run may be called again.
var ErrLeaseLost = lease.ErrLost

// lead waits for the lease and works while it holds it.
func lead(ctx context.Context, client kubernetes.Interface, work func(context.Context) error) error {
	identity, err := lease.Identity()
	if err != nil {
		return err
	}
	return lease.Lead(ctx, &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, func(leading context.Context) error {
		defer klog.InfoS("Controllers stopped", "lease", klog.KRef(metav1.NamespaceSystem, leaseName))
		return work(leading)
	})
}
