// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/lease"
	"gatehouse.dev/remote/installation"
)

const (
	// removalHolder is the holder of the Lease of an installation that is being removed.
	removalHolder = "removed"
	// noticedHolder is the holder after that, when the former leader keeps nothing any more.
	noticedHolder = "removed, which the replica that led has seen"
	// removalDuration is how long the Lease is taken if Remove doesn't complete.
	removalDuration = time.Minute
	// noticeTimeout is how long the leader may take to acknowledge the removal. It watches the Lease,
	// and reads it every two seconds.
	noticeTimeout = 3 * lease.RetryPeriod
	// noticePoll is how often Remove checks for the acknowledgement.
	noticePoll = 200 * time.Millisecond
	// replicaWait is how long the other replicas, which watch the Lease too, may take to see the
	// removal.
	replicaWait = 500 * time.Millisecond
)

// Remove removes what an installation keeps in the cluster: the configurations first, so that API
// servers stop calling, then the Secret with the certificates, then the Lease. It leaves everything
// else: the workload of the replicas, their rights, and the namespace.
//
// Running replicas see that the installation is removed, and write nothing again. If one leads,
// Remove waits until it has acknowledged that, six seconds at most. Objects that don't exist or
// belong to somebody else are left as they are. Remove may be called again after an error.
//
// Before Remove waits for a replica, it calls waiting with its name, unless waiting is nil.
func Remove(ctx context.Context, client kubernetes.Interface, name, namespace string,
	waiting func(replica string, atMost time.Duration)) error {
	i := installation.Installation{Name: name, Namespace: namespace}
	leader, err := takeLease(ctx, client, i, time.Now())
	if err != nil {
		return err
	}
	if _, err := removeConfigurations(ctx, client, i); err != nil {
		return err
	}
	if leader != "" {
		if waiting != nil {
			waiting(leader, noticeTimeout)
		}
		if err := waitNoticed(ctx, client, i); err != nil {
			return err
		}
		// A replica that created one while the Lease was taken has removed it again, unless that
		// failed.
		if _, err := removeConfigurations(ctx, client, i); err != nil {
			return err
		}
	}
	if _, err := validating(client).removeNamed(ctx, i, probeName(i)); err != nil {
		return err
	}
	secrets := client.CoreV1().Secrets(i.Namespace)
	secret, err := secrets.Get(ctx, i.SecretName(), metav1.GetOptions{})
	if err == nil && i.Owns(secret) {
		if err = secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(secret.UID))}); err == nil {
			klog.InfoS("Removed", "resource", corev1.Resource("secrets"), "object", klog.KObj(secret))
		}
	}
	if err := ignoreNotFound(err); err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(i.Namespace)
	l, err := leases.Get(ctx, i.Name, metav1.GetOptions{})
	if err == nil && i.Owns(l) {
		err = leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(l.UID))})
	}
	return ignoreNotFound(err)
}

// waitNoticed waits until the former leader acknowledges that the installation is removed. A
// replica that doesn't in time may have been killed.
func waitNoticed(ctx context.Context, client kubernetes.Interface, i installation.Installation) error {
	err := wait.PollUntilContextTimeout(ctx, noticePoll, noticeTimeout, true, func(ctx context.Context) (bool, error) {
		l, err := client.CoordinationV1().Leases(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), ignoreNotFound(err)
		}
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == noticedHolder, nil
	})
	if ctx.Err() != nil || err != nil && !wait.Interrupted(err) {
		return err
	}
	if err != nil {
		klog.Warning("The replica that leads hasn't acknowledged it: it has been killed, or can't reach the API server")
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(replicaWait):
		return nil
	}
}

// takeLease writes the removal to the Lease, and returns the former leader.
func takeLease(ctx context.Context, client kubernetes.Interface, i installation.Installation,
	now time.Time) (leader string, err error) {
	leases := client.CoordinationV1().Leases(i.Namespace)
	for {
		l, err := leases.Get(ctx, i.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if !i.Owns(l) {
			return "", i.Foreign(coordinationv1.Resource("leases"), l)
		}
		leader = ""
		if isHeld(l, now) && *l.Spec.HolderIdentity != noticedHolder {
			leader = *l.Spec.HolderIdentity
		}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new(removalHolder), new(int32(removalDuration/time.Second))
		l.Spec.AcquireTime, l.Spec.RenewTime = new(metav1.NewMicroTime(now)), new(metav1.NewMicroTime(now))
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) { // the holder renewed it meanwhile
			continue
		}
		return leader, err
	}
}
