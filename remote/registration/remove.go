package registration

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gatehouse.dev/internal/lease"
	"gatehouse.dev/remote/installation"
)

const (
	// removal holds the Lease of an installation that is being removed.
	removal = "removed"
	// removing is for how long nobody else takes it, if Remove doesn't come to its end.
	removing = time.Minute
	// noticing is how long replicas may take to see who holds the Lease. They look every two
	// seconds.
	noticing = 3 * lease.RetryPeriod
)

// Remove removes what an installation keeps in the cluster: the configurations first, so that
// nobody is asked any more, then the Secret with the certificates, then the Lease. It is none of
// its business what else there is: what runs the replicas, their rights, and the namespace.
//
// Replicas that run see that the installation is removed, and don't bring anything back; where one
// leads, Remove waits six seconds for that. What isn't there, or is somebody else's, is left as it
// is. It may be called again after an error.
func Remove(ctx context.Context, client kubernetes.Interface, name, namespace string) error {
	return remove(ctx, client, installation.Installation{Name: name, Namespace: namespace}, clock.RealClock{})
}

func remove(ctx context.Context, client kubernetes.Interface, i installation.Installation, c clock.Clock) error {
	led, err := takeLease(ctx, client, i, c.Now())
	if err != nil {
		return err
	}
	if _, err := removeConfigurations(ctx, client, i); err != nil {
		return err
	}
	if led {
		timer := c.NewTimer(noticing)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C():
		}
		// Who created one while the Lease was taken has removed it again, unless that failed.
		if _, err := removeConfigurations(ctx, client, i); err != nil {
			return err
		}
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

// takeLease has the Lease say that the installation is removed, and whether somebody may have led.
func takeLease(ctx context.Context, client kubernetes.Interface, i installation.Installation,
	now time.Time) (led bool, err error) {
	leases := client.CoordinationV1().Leases(i.Namespace)
	for {
		l, err := leases.Get(ctx, i.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !i.Owns(l) {
			return false, i.Foreign(coordinationv1.Resource("leases"), l)
		}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new(removal), new(int32(removing/time.Second))
		l.Spec.AcquireTime, l.Spec.RenewTime = new(metav1.NewMicroTime(now)), new(metav1.NewMicroTime(now))
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) { // its holder was faster
			continue
		}
		return true, err
	}
}
