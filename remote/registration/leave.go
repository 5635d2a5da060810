// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// leaveTimeout bounds how long a process that ends tries to remove the configurations.
const leaveTimeout = 5 * time.Second

// seenLease holds what a process has seen of the Lease.
type seenLease struct {
	removed atomic.Bool // the installation was removed while the process ran

	mu     sync.Mutex
	looked bool
	// earlier is when the removal began that held the Lease before the process did; zero for none.
	earlier metav1.Time
}

// recordLease records what the Lease says. If that is a removal that began after the process did, it ends
// the Keeper's work.
func (k *Keeper) recordLease(holder string, acquired metav1.Time) {
	s := &k.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	removing := holder == removalHolder || holder == noticedHolder
	if !s.looked {
		s.looked = true
		if removing {
			s.earlier = acquired
		}
		return
	}
	if removing && !acquired.Equal(&s.earlier) && s.removed.CompareAndSwap(false, true) {
		close(k.uninstalled)
	}
}

// recordLeaseObject calls recordLease for an object of a watch.
func (k *Keeper) recordLeaseObject(object any) {
	l, ok := object.(*coordinationv1.Lease)
	if !ok || l.Spec.HolderIdentity == nil || l.Spec.AcquireTime == nil {
		return
	}
	k.recordLease(*l.Spec.HolderIdentity, metav1.Time{Time: l.Spec.AcquireTime.Time})
}

// acknowledge tells Remove that the former leader keeps nothing any more.
func (k *Keeper) acknowledge(ctx context.Context) {
	leases := k.Client.CoordinationV1().Leases(k.Options.Namespace)
	l, err := leases.Get(ctx, k.Options.Name, metav1.GetOptions{})
	if err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == removalHolder {
		l.Spec.HolderIdentity = new(noticedHolder)
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	if ignoreNotFound(err) != nil && ctx.Err() == nil {
		klog.InfoS("The removal wasn't acknowledged, and waits longer than it had to", "err", err)
	}
}

// Removed returns the configurations that Run has removed at its end, as resource/name, or else the
// replica that keeps them.
func (k *Keeper) Removed() (removed []string, leader string) { return k.deleted, k.other }

// leave removes the configurations if RemoveAtEnd is set and no other replica leads.
func (k *Keeper) leave() error {
	if !k.RemoveAtEnd || k.gone {
		return nil
	}
	k.gone = true
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	l, err := k.Client.CoordinationV1().Leases(k.Options.Namespace).Get(ctx, k.Options.Name, metav1.GetOptions{})
	if err == nil && isHeld(l, time.Now()) && *l.Spec.HolderIdentity != k.identity {
		k.other = *l.Spec.HolderIdentity
		return nil
	}
	if err == nil || apierrors.IsNotFound(err) {
		i := k.Options.Installation()
		what, mutatingErr := mutating(k.Client).remove(ctx, i)
		whatElse, validatingErr := validating(k.Client).remove(ctx, i)
		for _, done := range []struct{ what, resource string }{{what, "mutatingwebhookconfigurations"},
			{whatElse, "validatingwebhookconfigurations"}} {
			if done.what != "" {
				k.deleted = append(k.deleted, done.resource+"/"+i.Name)
			}
		}
		err = errors.Join(mutatingErr, validatingErr)
	}
	if err != nil {
		return fmt.Errorf("removing the webhook configurations %q: %w: they are left, and requests are refused by "+
			"their failurePolicy: remove them with gatehouse webhook uninstall", k.Options.Name, err)
	}
	return nil
}

// isHeld reports whether somebody holds a Lease.
func isHeld(l *coordinationv1.Lease, now time.Time) bool {
	s := &l.Spec
	return s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
		now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second))
}
