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
	// CheckReached has the leader find out whether API servers reach the webhooks before it has
	// them call any. They have to answer at ProbePath.
	CheckReached bool
	// RemoveAtEnd has Run remove the configurations when ctx is done, unless another replica leads.
	RemoveAtEnd bool
	// Clock is nil for the real one. Leader election doesn't go by it.
	Clock clock.Clock

	seen               seenLease
	led                atomic.Bool // this replica has led
	reached, gone      bool        // CheckReached and RemoveAtEnd have been done
	deleted            []string    // what was removed at the end
	other              string      // leads at the end
	woken, uninstalled chan struct{}
	identity           string // as who it leads
}

// ErrRemoved is Run's error where the installation has been removed while the process ran. It keeps
// nothing any more: the API servers that were asked to ask it no longer do.
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
	k.woken, k.uninstalled = make(chan struct{}, 1), make(chan struct{})
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
	staying, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-k.uninstalled:
			cancel()
		case <-staying.Done():
		}
	}()
	k.whenServing(staying)
	for staying.Err() == nil {
		lock := k.lock()
		err := lease.Lead(staying, lock, func(leading context.Context) error {
			k.led.Store(true)
			if err := k.lead(leading); err != nil || ctx.Err() == nil {
				return err
			}
			return k.leave() // before another replica may lead
		})
		if err != nil && staying.Err() == nil {
			klog.ErrorS(err, "Not leading any more", "lease", lock.Describe())
		}
		if err != nil && ctx.Err() != nil && k.RemoveAtEnd {
			return err
		}
	}
	if !k.seen.removed.Load() {
		return k.leave()
	}
	k.Certificates.Abandon()
	if k.led.Load() {
		k.acknowledge(ctx)
	}
	return ErrRemoved
}

// whenServing waits until the replica serves.
func (k *Keeper) whenServing(ctx context.Context) {
	lock := k.lock()
	for {
		timer := k.Clock.NewTimer(lease.RetryPeriod)
		select {
		case <-ctx.Done():
		case <-k.Serving:
			timer.Stop()
			return
		case <-timer.C():
			_, _, _ = lock.Get(ctx) // what it says is of interest when it leads
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// lock returns the Lease, by which the replica also sees that the installation is removed.
func (k *Keeper) lock() *removableLock {
	return &removableLock{LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: k.Options.Namespace, Name: k.Options.Name},
		Client:     k.Client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: k.identity},
		Labels:     k.Options.Installation().Labels(),
	}, keeper: k}
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

// removableLock is a LeaseLock that tells the Keeper what the Lease says.
type removableLock struct {
	*resourcelock.LeaseLock
	keeper *Keeper
}

// Get implements resourcelock.Interface.
func (l *removableLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	switch {
	case err == nil:
		l.keeper.sees(record.HolderIdentity, record.AcquireTime)
	case apierrors.IsNotFound(err):
		l.keeper.sees("", metav1.Time{})
	}
	return record, raw, err
}
