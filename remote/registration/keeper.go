// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gatehouse.dev/internal/lease"
	"gatehouse.dev/remote/installation"
	"gatehouse.dev/webhook/review"
)

const (
	// rereadInterval is how often the leader reads the configurations if no event says that they have
	// changed.
	rereadInterval = time.Minute
	// Failed attempts, and configurations that others keep changing, are tried again after these
	// times.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Certificates are the serving certificates of the replicas, as package certificates keeps them.
type Certificates interface {
	// CABundle returns what API servers have to verify with, and whether that is known yet.
	CABundle() (bundle []byte, known bool)
	// Changed returns a channel that receives when CABundle has changed.
	Changed() <-chan struct{}
	// Trusted records the caBundles of all webhooks that API servers call.
	Trusted(bundles ...[]byte)
}

// A Keeper keeps the configurations true, as one of the installation's replicas.
type Keeper struct {
	// Options describe the configurations. An empty User stands for the client's user.
	Options Options
	Client  kubernetes.Interface
	// Certificates are the replica's serving certificates.
	Certificates Certificates
	// Serving is closed when the replica serves and its plugins' caches are filled. The replica
	// doesn't lead before.
	Serving <-chan struct{}
	// CheckReached makes the leader find out whether API servers reach the webhooks before they
	// call any. The replicas have to answer at ProbePath.
	CheckReached bool
	// RemoveAtEnd makes Run remove the configurations when ctx is done, unless another replica
	// leads.
	RemoveAtEnd bool
	// Clock is nil for the real one. Leader election doesn't go by it.
	Clock clock.Clock

	reached, gone bool     // CheckReached and RemoveAtEnd have been done
	deleted       []string // what was removed at the end
	other         string   // leads at the end
	woken         chan struct{}
	identity      string // as who it leads
}

// Run keeps the configurations while this replica leads, until ctx is done. It fails at once if a
// configuration of the name belongs to somebody else. Later errors are logged, and the operation is
// tried again.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.Options.Validate(); err != nil {
		return err
	}
	if k.Clock == nil {
		k.Clock = clock.RealClock{}
	}
	k.woken = make(chan struct{}, 1)
	var err error
	if k.identity, err = lease.Identity(); err != nil {
		return err
	}
	if err := k.begin(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	stop, err := k.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-k.Serving:
	case <-ctx.Done():
	}
	k.sayWhoIsAsked(ctx)
	for ctx.Err() == nil {
		lock := k.lock()
		err := lease.Lead(ctx, lock, func(leading context.Context) error {
			if err := k.lead(leading); err != nil || ctx.Err() == nil {
				return err
			}
			return k.leave() // before another replica may lead
		})
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "No longer the leader", "lease", lock.Describe())
		}
		if err != nil && ctx.Err() != nil && k.RemoveAtEnd {
			return err
		}
	}
	return k.leave()
}

// sayWhoIsAsked warns if another replica keeps configurations by which API servers call another URL.
func (k *Keeper) sayWhoIsAsked(ctx context.Context) {
	i := k.Options.Installation()
	l, err := k.Client.CoordinationV1().Leases(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if err != nil || !isHeld(l, k.Clock.Now()) || *l.Spec.HolderIdentity == k.identity || k.Options.URL == "" {
		return
	}
	var called []admissionregistrationv1.WebhookClientConfig
	if c, found, err := mutating(k.Client).get(ctx, i); err == nil && found {
		for n := range c.Webhooks {
			called = append(called, c.Webhooks[n].ClientConfig)
		}
	}
	if c, found, err := validating(k.Client).get(ctx, i); err == nil && found {
		for n := range c.Webhooks {
			called = append(called, c.Webhooks[n].ClientConfig)
		}
	}
	for _, c := range called {
		if c.URL == nil || !strings.HasPrefix(*c.URL, strings.TrimSuffix(k.Options.URL, "/")+"/") {
			klog.Warningf("This process isn't asked: replica %s keeps the webhook configurations %q, by which API servers ask "+
				"%s. Give this process another name with --name, or stop the other one.", *l.Spec.HolderIdentity, i.Name,
				review.Audience(c))
			return
		}
	}
}

// lock returns the Lease by which the replicas elect a leader.
func (k *Keeper) lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: k.Options.Namespace, Name: k.Options.Name},
		Client:     k.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: k.identity},
		Labels:     k.Options.Installation().Labels(),
	}
}

// begin checks what exists, and creates the namespace. It tries until it can.
func (k *Keeper) begin(ctx context.Context) error {
	for retry := firstRetry; ctx.Err() == nil; retry = min(2*retry, lastRetry) {
		err := k.check(ctx)
		var foreign *installation.ForeignError
		if err == nil || errors.As(err, &foreign) {
			return err
		}
		klog.ErrorS(err, "The webhook configurations can't be kept yet", "retry", retry)
		timer := k.Clock.NewTimer(retry)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

func (k *Keeper) check(ctx context.Context) error {
	i := k.Options.Installation()
	if err := errors.Join(mutating(k.Client).check(ctx, i), validating(k.Client).check(ctx, i),
		checkLease(ctx, k.Client, i)); err != nil {
		return err
	}
	if k.Options.User == "" {
		review, err := k.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // it is served since 1.28
			return err
		}
		if err == nil {
			k.Options.User = review.Status.UserInfo.Username
		}
	}
	return i.MakeNamespace(ctx, k.Client)
}
