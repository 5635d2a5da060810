package registration

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gatehouse.dev/internal/lease"
	"gatehouse.dev/remote/installation"
)

const (
	// look is how often the leader looks at the configurations where nothing says they have
	// changed.
	look = time.Minute
	// What fails, and what others change again and again, is tried again after these times.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Certificates are what the replicas serve with. Package certificates has them.
type Certificates interface {
	// CABundle is what API servers have to verify with, and whether that is known yet.
	CABundle() (bundle []byte, known bool)
	// Changed receives when it has changed.
	Changed() <-chan struct{}
	// Trusted is told of the caBundles of all webhooks that API servers call.
	Trusted(bundles ...[]byte)
	// Abandon has the certificates kept for this installation no longer.
	Abandon()
}

// A Keeper is one replica's part in keeping the configurations true.
type Keeper struct {
	// Options are what they should say. Where User is empty it is whom the client acts as.
	Options Options
	Client  kubernetes.Interface
	// Certificates are those that the replica serves with.
	Certificates Certificates
	// Serving is closed when the replica serves and what its plugins read has been read. It doesn't
	// lead before.
	Serving <-chan struct{}
	// Clock is nil for the real one. Leader election doesn't go by it.
	Clock clock.Clock

	// looked says that the Lease has been read: it was held by a removal before this process began,
	// or it wasn't.
	looked, removed atomic.Bool
	woken           chan struct{}
	identity        string // as who it leads
}

// ErrRemoved is Run's error where the installation has been removed while the process ran. It goes
// on serving, and keeps nothing any more: the API servers that were asked to ask it no longer do.
var ErrRemoved = errors.New("the installation has been removed: this process keeps no webhook configurations " +
	"any more")

// Run keeps the configurations while this replica leads, until ctx is done. It fails at once where
// a configuration of the name is somebody else's; later on that is logged, as everything is that
// goes wrong, and tried again.
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
	k.whenServing(ctx)
	for ctx.Err() == nil && !k.removed.Load() {
		electing, cancel := context.WithCancel(ctx)
		lock := k.lock(cancel)
		if err := lease.Lead(electing, lock, k.lead); err != nil && electing.Err() == nil {
			klog.ErrorS(err, "Not leading any more", "lease", lock.Describe())
		}
		cancel()
	}
	if !k.removed.Load() {
		return nil
	}
	k.Certificates.Abandon()
	return ErrRemoved
}

// whenServing waits until the replica serves, or is seen to have been removed.
func (k *Keeper) whenServing(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := k.lock(cancel)
	for {
		timer := k.Clock.NewTimer(lease.RetryPeriod)
		select {
		case <-ctx.Done():
		case <-k.Serving:
			cancel()
		case <-timer.C():
			_, _, _ = lock.Get(ctx) // what it says is of interest when it leads
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// lock is the Lease; cancel is called where it says that the installation has been removed.
func (k *Keeper) lock(cancel context.CancelFunc) *removableLock {
	return &removableLock{LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: k.Options.Namespace, Name: k.Options.Name},
		Client:     k.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: k.identity},
		Labels:     k.Options.Installation().Labels(),
	}, keeper: k, cancel: cancel}
}

// begin finds out what there is, and makes the namespace. It tries until it can.
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

// removableLock is a LeaseLock that tells when the lease is that of an installation which has been
// removed since the process began.
type removableLock struct {
	*resourcelock.LeaseLock
	keeper *Keeper
	cancel context.CancelFunc
}

// Get implements resourcelock.Interface.
func (l *removableLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return record, raw, err
	}
	first := l.keeper.looked.CompareAndSwap(false, true)
	if err == nil && record.HolderIdentity == removal && !first {
		l.keeper.removed.Store(true)
		l.cancel()
	}
	return record, raw, err
}
