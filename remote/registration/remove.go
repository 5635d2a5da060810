// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/lease"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/installation"
)

const (
	// endTimeout bounds the wait for the replicas' pods. It is longer than their grace period.
	endTimeout = time.Minute
	// endPoll is how often Remove looks whether they have ended.
	endPoll = time.Second
)

// Remove ends the replicas of an installation, and removes what it keeps in the cluster: the
// configurations, then the Secret with the certificates, then the Lease. It leaves everything else: the
// Deployment without replicas, their rights, and the namespace (Installation.RemoveNamespace). Objects that
// don't exist or belong to somebody else are left as they are. Remove may be called again after an error.
//
// It scales the Deployment of the installation's name to zero, and waits until the pods have ended. A replica
// that runs anywhere else must have ended before: while one keeps the configurations, Remove returns an error
// that names it. Before Remove waits, it calls waiting with what it waits for, unless waiting is nil.
func Remove(ctx context.Context, client kubernetes.Interface, name, namespace string,
	waiting func(until string)) error {
	i := installation.Installation{Name: name, Namespace: namespace}
	if waiting == nil {
		waiting = func(string) {}
	}
	if err := checkLease(ctx, client, i); err != nil {
		return err
	}
	if err := endReplicas(ctx, client, i, waiting); err != nil {
		return err
	}
	if err := awaitLease(ctx, client, i, waiting); err != nil {
		return err
	}
	if _, err := removeConfigurations(ctx, client, i); err != nil {
		return err
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

// RemovalAccess returns the rights that Remove needs in the installation's namespace besides those of a replica.
func RemovalAccess(i installation.Installation) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{plugin.To("get", "apps", "deployments"), plugin.To("update", "apps", "deployments/scale"),
		plugin.To("list", "", "pods")}
	rules[0].ResourceNames, rules[1].ResourceNames = []string{i.Name}, []string{i.Name}
	return rules
}

// endReplicas scales the installation's Deployment to zero, if there is one, and waits until its pods have ended.
// Meanwhile it removes the configurations, so that API servers don't call replicas that have ended.
func endReplicas(ctx context.Context, client kubernetes.Interface, i installation.Installation,
	waiting func(until string)) error {
	deployments := client.AppsV1().Deployments(i.Namespace)
	d, err := deployments.Get(ctx, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && !i.Runs(d) {
		return nil // awaitLease finds replicas that run elsewhere
	}
	if err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return err
	}
	if _, err := deployments.UpdateScale(ctx, i.Name, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: i.Name,
		Namespace: i.Namespace}}, metav1.UpdateOptions{}); err != nil {
		return err
	}
	waiting(fmt.Sprintf("the pods of Deployment %s/%s have ended", i.Namespace, i.Name))
	err = wait.PollUntilContextTimeout(ctx, endPoll, endTimeout, true, func(ctx context.Context) (bool, error) {
		if _, err := removeConfigurations(ctx, client, i); err != nil {
			return false, err
		}
		pods, err := client.CoreV1().Pods(i.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return false, err
		}
		for n := range pods.Items {
			if phase := pods.Items[n].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
				return false, nil
			}
		}
		return true, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("the pods of Deployment %s/%s haven't ended after %s: uninstall again once they have, or are "+
			"deleted by force", i.Namespace, i.Name, endTimeout)
	}
	return err
}

// awaitLease waits until no replica holds the Lease. A replica that has crashed holds it for some seconds. One that
// renews it still runs.
func awaitLease(ctx context.Context, client kubernetes.Interface, i installation.Installation,
	waiting func(until string)) error {
	var before *coordinationv1.Lease
	var since time.Time
	return wait.PollUntilContextCancel(ctx, endPoll, true, func(ctx context.Context) (bool, error) {
		l, err := client.CoordinationV1().Leases(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
		if err != nil || !isHeld(l, time.Now()) {
			return true, ignoreNotFound(err)
		}
		holder := *l.Spec.HolderIdentity
		switch {
		case before == nil:
			waiting(fmt.Sprintf("replica %s no longer keeps the webhook configurations", holder))
			before, since = l, time.Now()
		case time.Since(since) > lease.Duration: // its holder's clock is ahead
			return true, nil
		case !l.Spec.RenewTime.Equal(before.Spec.RenewTime):
			return false, fmt.Errorf("replica %s runs, and keeps the webhook configurations %q: end it, and uninstall again",
				holder, i.Name)
		}
		return false, nil
	})
}
