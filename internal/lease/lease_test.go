// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const leaseName = "test"

// How leading ends, and what has become of the lease then. Work takes its time to end, during which
// the lease isn't another's. Time is the bubble's.
func TestLead(t *testing.T) {
	const winding = 5 * time.Second
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		happens func(client *cluster, stop context.CancelFunc) // once somebody leads
		// by somebody else, from the beginning
		held   bool
		work   error
		err    error
		holder string // after it
	}{
		"it is asked to stop": {happens: func(_ *cluster, stop context.CancelFunc) { stop() }},
		"it is asked to stop before it leads": {happens: func(_ *cluster, stop context.CancelFunc) { stop() },
			held: true, holder: "other"},
		"the work fails": {work: broken, err: broken},
		"another takes the lease": {happens: func(c *cluster,
			_ context.CancelFunc) {
			c.take(t)
			c.stall(time.Hour)
		}, err: ErrLost, holder: "other"},
		"the lease can't be renewed any more": {happens: func(c *cluster, _ context.CancelFunc) { c.stall(time.Hour) },
			err: ErrLost, holder: "self"},
		"the lease can't be renewed for 13 s": {happens: func(c *cluster,
			_ context.CancelFunc) {
			c.stall(13 * time.Second)
		}, err: ErrLost},
		"the lease can't be renewed for 5 s": {happens: func(c *cluster, stop context.CancelFunc) {
			c.stall(5 * time.Second)
			time.AfterFunc(time.Minute, stop)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newCluster()
				if test.held {
					client.take(t)
				}
				lock := &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
					Client:     client.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: "self"},
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				works := false
				ended := make(chan error, 1)
				go func() {
					ended <- Lead(ctx, lock, func(leading context.Context) error {
						works = true
						defer func() { works = false }()
						if test.work != nil {
							return test.work
						}
						<-leading.Done()
						time.Sleep(winding)
						if got := client.holder(t); got != "self" && test.holder != "other" {
							t.Errorf("while it works, %q holds the lease", got)
						}
						return nil
					})
				}()
				synctest.Wait()
				if test.happens != nil {
					test.happens(client, stop)
				}
				if err := <-ended; !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				if works {
					t.Error("it still works")
				}
				if got := client.holder(t); got != test.holder {
					t.Errorf("%q holds the lease, want %q", got, test.holder)
				}
			})
		})
	}
}

type cluster struct {
	*fake.Clientset
	stalled atomic.Pointer[time.Time] // until when updates fail
}

func newCluster() *cluster {
	c := &cluster{Clientset: fake.NewClientset()}
	c.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		until := c.stalled.Load()
		return until != nil && time.Now().Before(*until), nil, errors.New("etcdserver: request timed out")
	})
	return c
}

// take gives the lease to somebody else, who doesn't renew it.
func (c *cluster) take(t *testing.T) {
	t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(Duration / time.Second)),
			RenewTime: new(metav1.NowMicro()),
		},
	}
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	err := c.Tracker().Update(resource, lease, lease.Namespace)
	if err != nil {
		err = c.Tracker().Create(resource, lease, lease.Namespace)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stall makes updates fail for a while.
func (c *cluster) stall(d time.Duration) { c.stalled.Store(new(time.Now().Add(d))) }

// holder is who holds the lease: nobody, self, or other.
func (c *cluster) holder(t *testing.T) string {
	t.Helper()
	object, err := c.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), metav1.NamespaceSystem,
		leaseName)
	if err != nil {
		t.Fatal(err)
	}
	switch identity := object.(*coordinationv1.Lease).Spec.HolderIdentity; {
	case identity == nil || *identity == "":
		return ""
	default:
		return *identity
	}
}
