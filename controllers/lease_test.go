package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// How leading ends, and what has become of the lease then. Work takes its time to end, during which the lease isn't another's. Time is the bubble's.
func TestLead(t *testing.T) {
	const winding = 5 * time.Second
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		happens func(client *fake.Clientset, stop context.CancelFunc) // once somebody leads
		held    bool                                                  // by somebody else, from the beginning
		work    error
		err     error
		holder  string // after it
	}{
		"it is asked to stop":                 {happens: func(_ *fake.Clientset, stop context.CancelFunc) { stop() }},
		"it is asked to stop before it leads": {happens: func(_ *fake.Clientset, stop context.CancelFunc) { stop() }, held: true, holder: "other"},
		"the work fails":                      {work: broken, err: broken},
		"another takes the lease":             {happens: func(c *fake.Clientset, _ context.CancelFunc) { take(t, c); stall(c, time.Hour) }, err: ErrLeaseLost, holder: "other"},
		"the lease can't be renewed any more": {happens: func(c *fake.Clientset, _ context.CancelFunc) { stall(c, time.Hour) }, err: ErrLeaseLost, holder: "self"},
		"the lease can't be renewed for 15 s": {happens: func(c *fake.Clientset, _ context.CancelFunc) { stall(c, 15*time.Second) }, err: ErrLeaseLost},
		"the lease can't be renewed for 5 s": {happens: func(c *fake.Clientset, stop context.CancelFunc) {
			stall(c, 5*time.Second)
			time.AfterFunc(time.Minute, stop)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if test.held {
					take(t, client)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				works := false
				ended := make(chan error, 1)
				go func() {
					ended <- lead(ctx, client, func(leading context.Context) error {
						works = true
						defer func() { works = false }()
						if test.work != nil {
							return test.work
						}
						<-leading.Done()
						time.Sleep(winding)
						if got := holder(t, client); got != "self" && test.holder != "other" {
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
				if got := holder(t, client); got != test.holder {
					t.Errorf("%q holds the lease, want %q", got, test.holder)
				}
			})
		})
	}
}

// take gives the lease to somebody else, who doesn't renew it.
func take(t *testing.T, client *fake.Clientset) {
	t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(leaseDuration / time.Second)), RenewTime: new(metav1.NowMicro()),
		},
	}
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	err := client.Tracker().Update(resource, lease, lease.Namespace)
	if err != nil {
		err = client.Tracker().Create(resource, lease, lease.Namespace)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stall makes updates fail for a while.
func stall(client *fake.Clientset, d time.Duration) {
	until := time.Now().Add(d)
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return time.Now().Before(until), nil, errors.New("etcdserver: request timed out")
	})
}

// holder is who holds the lease: nobody, self, or other.
func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	object, err := client.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), metav1.NamespaceSystem, leaseName)
	if err != nil {
		t.Fatal(err)
	}
	switch identity := object.(*coordinationv1.Lease).Spec.HolderIdentity; {
	case identity == nil || *identity == "":
		return ""
	case *identity == "other":
		return *identity
	default:
		return "self"
	}
}
