package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	// leaseName is the Lease in kube-system that the leader holds.
	leaseName = "gatehouse-controllers"

	// kube-controller-manager's figures.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// ErrLeaseLost is Run's error when the lease could not be renewed in time. Everything that ran has
// ended by then, so Run may be called again.
var ErrLeaseLost = errors.New("lost the lease " + metav1.NamespaceSystem + "/" + leaseName)

// lead waits for the lease and works while it holds it. It returns when the work has ended: where
// ctx ends or the lease is lost, so does the work's context. The lease is given away after that, so
// that the next one doesn't work at the same time.
func lead(ctx context.Context, client kubernetes.Interface, work func(context.Context) error) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString()},
	}
	electing, stop := context.WithCancel(ctx)
	defer stop()
	var begun atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          leaseName,
		Lock:          lock,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !begun.CompareAndSwap(false, true) {
					return
				}
				err := work(leading)
				if err == nil && ctx.Err() == nil {
					err = ErrLeaseLost
				}
				result <- err
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(electing)
	if begun.CompareAndSwap(false, true) {
		result <- nil // nor will the work begin now
	}
	ended := <-result
	if !elector.IsLeader() {
		return ended
	}
	name := klog.KRef(metav1.NamespaceSystem, leaseName)
	klog.InfoS("Controllers stopped", "lease", name)
	if err := release(lock); err != nil {
		klog.ErrorS(err, "The lease is left to expire", "lease", name)
	}
	return ended
}

// release gives the lease away if it is held. The elector could do that, but does it while the work
// goes on.
func release(lock *resourcelock.LeaseLock) error {
	ctx, cancel := context.WithTimeout(context.Background(), renewDeadline)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if record.HolderIdentity != lock.Identity() {
		return nil
	}
	now := metav1.Now()
	return lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}
