// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease implements leader election with a Lease, for work that must have ended before
// another process begins it.
package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// The durations are kube-controller-manager's.
const (
	// Duration is how long a lease is held without being renewed.
	Duration = 15 * time.Second
	// RenewDeadline is how long a leader tries to renew its lease before it ends its work.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is how often a leader renews the lease, and how often others check whether it is
	// free.
	RetryPeriod = 2 * time.Second
)

// ErrLost is returned by Lead if the lease couldn't be renewed in time, or another process took it.
var ErrLost = errors.New("lost the lease")

// Identity returns an identity that no other process has.
func Identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	return host + "_" + uuid.NewString(), nil
}

// Lead waits for the lease and works while it holds it. It returns when the work has ended. The
// work's context ends when ctx ends or the lease is lost. Lead gives the lease away only after the
// work has ended, so that the next holder doesn't work at the same time. Lead returns the work's
// error, or ErrLost if the lease was lost. It may be called again after that.
func Lead(ctx context.Context, lock resourcelock.Interface, work func(context.Context) error) error {
	electing, stop := context.WithCancel(ctx)
	defer stop()
	var begun atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          lock.Describe(),
		Lock:          lock,
		LeaseDuration: Duration,
		RenewDeadline: RenewDeadline,
		RetryPeriod:   RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !begun.CompareAndSwap(false, true) {
					return
				}
				err := work(leading)
				if err == nil && ctx.Err() == nil {
					err = fmt.Errorf("%w %s", ErrLost, lock.Describe())
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
		result <- nil // the work won't begin any more
	}
	ended := <-result
	if !elector.IsLeader() {
		return ended
	}
	if err := release(lock); err != nil {
		klog.ErrorS(err, "The lease is left to expire", "lease", lock.Describe())
	}
	return ended
}

// release gives the lease away if this process holds it. The elector could do that, but does it
// while the work still runs.
func release(lock resourcelock.Interface) error {
	ctx, cancel := context.WithTimeout(context.Background(), RenewDeadline)
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
