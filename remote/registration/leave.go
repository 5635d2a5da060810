// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaveTimeout bounds how long a process that ends tries to remove the configurations.
const leaveTimeout = 5 * time.Second

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
