// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/remote/installation"
)

var whose = installation.Installation{Name: "gatehouse", Namespace: "gatehouse-system"}

// cluster has two replicas whose webhook configurations are kept by the first, and an API server
// that calls both of them. It sees the configurations late. Time is the bubble's.
type cluster struct {
	*fake.Clientset
	replicas []*Own

	mu     sync.Mutex
	stored []byte // the caBundle of the webhook configurations; nil where there are none
	seen   []byte // by the API server
	away   bool   // the API server is
	// writes numbers what was stored, sees is the number of what is seen
	writes, sees int
}

// late is how long an API server takes to see a configuration.
const late = 20 * time.Second

func newCluster(t *testing.T) *cluster {
	c := &cluster{Clientset: fake.NewClientset()}
	c.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.away, nil, errors.New("connection refused")
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for range 2 {
		c.replica(ctx, &running)
	}
	running.Go(func() { c.keep(ctx) })
	time.Sleep(time.Minute)
	synctest.Wait()
	return c
}

func (c *cluster) replica(ctx context.Context, running *sync.WaitGroup) {
	o := NewOwn(Options{Installation: whose, Hosts: hosts, Client: c.Clientset})
	c.replicas = append(c.replicas, o)
	c.mu.Lock()
	o.Trusted(c.bundles()...)
	c.mu.Unlock()
	running.Go(func() {
		if err := o.Run(ctx); err != nil {
			panic(err)
		}
	})
}

func (c *cluster) bundles() [][]byte {
	if c.stored == nil {
		return nil
	}
	return [][]byte{c.stored, c.stored}
}

// keep does what a Keeper does. While the API server is away it doesn't either.
func (c *cluster) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.replicas[0].Changed():
		}
		bundle, known := c.replicas[0].CABundle()
		c.mu.Lock()
		if known && !c.away {
			c.stored = bundle
			for _, r := range c.replicas {
				r.Trusted(c.bundles()...)
			}
			c.writes++
			write := c.writes
			time.AfterFunc(late, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				if write > c.sees {
					c.seen, c.sees = bundle, write
				}
			})
		}
		c.mu.Unlock()
	}
}

// call is why the API server can't call one of the replicas.
func (c *cluster) call(t *testing.T) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.seen)
	for i, r := range c.replicas {
		pair, err := r.GetCertificate(nil)
		if err == nil {
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: hosts[0]})
		}
		if err != nil {
			t.Fatalf("%s, replica %d: %v", time.Now(), i, err)
		}
		if err := r.Ready(); err != nil {
			t.Fatalf("%s, replica %d: %v", time.Now(), i, err)
		}
	}
}

func (c *cluster) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s, err := c.CoreV1().Secrets(whose.Namespace).Get(t.Context(), whose.SecretName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Certificates and authorities come to their ends, and no call is ever refused.
func TestYears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		certificates, authorities := map[string]bool{}, map[string]bool{}
		for end := time.Now().Add(2*authorityLifetime - 30*day); time.Now().Before(end); time.Sleep(37 * time.Hour) {
			c.call(t)
			s := c.secret(t)
			certificates[string(s.Data[corev1.TLSCertKey])] = true
			authorities[string(s.Data["ca.key"])] = true
		}
		// one each 60 days, and each 16 months
		if len(certificates) < 24 || len(authorities) != 3 {
			t.Errorf("%d certificates and %d authorities", len(certificates), len(authorities))
		}
		if trusted := strings.Count(string(c.seen), "BEGIN"); trusted > 2 {
			t.Errorf("%d authorities are trusted", trusted)
		}
	})
}

// What becomes of the Secret refuses no call either.
func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, c *cluster)
		kept   bool // the authority is
	}{
		"deleted": {change: func(t *testing.T, c *cluster) {
			if err := c.CoreV1().Secrets(whose.Namespace).Delete(t.Context(), whose.SecretName(),
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}},
		"all garbled": {change: edit(func(d map[string][]byte) {
			for key := range d {
				d[key] = []byte("garbled")
			}
		})},
		"emptied":               {change: edit(func(d map[string][]byte) { clear(d) })},
		"the authority garbled": {change: edit(func(d map[string][]byte) { d["ca.key"] = nil })},
		"the certificate garbled": {change: edit(func(d map[string][]byte) { d["tls.crt"] = nil }),
			kept: true},
		"rotated by hand":                       {change: rotate(0)},
		"rotated by hand, not whole":            {change: rotate(1)},
		"rotated by hand, and the old one kept": {change: rotate(2)},
		"the API server is away for a minute": {change: func(t *testing.T, c *cluster) {
			c.setAway(true)
			time.Sleep(time.Minute)
			c.call(t)
			c.setAway(false)
		}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				before := c.secret(t)
				for range 2 { // and once more on top of that
					test.change(t, c)
					for range 12 * 20 {
						c.call(t)
						time.Sleep(3 * time.Second)
					}
				}
				after := c.secret(t)
				if kept := string(before.Data["ca.key"]) == string(after.Data["ca.key"]); kept != test.kept {
					t.Errorf("the authority is kept: %t", kept)
				}
				if !whose.Owns(after) || after.Type != corev1.SecretTypeTLS {
					t.Errorf("%s %v", after.Type, after.Labels)
				}
				if string(c.seen) != string(after.Data["ca.crt"]) {
					t.Error("what the API server trusts isn't what is in the Secret")
				}
				for _, r := range c.replicas {
					if got, want := c.served(r), string(after.Data["tls.crt"]); got != want {
						t.Errorf("the certificate that is served isn't that in the Secret")
					}
				}
			})
		})
	}
}

func (c *cluster) served(r *Own) string {
	pair, err := r.GetCertificate(nil)
	if err != nil {
		return err.Error()
	}
	return string(authority.Encode(pair.Leaf))
}

func (c *cluster) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

func edit(change func(map[string][]byte)) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		s := c.secret(t)
		change(s.Data)
		if _, err := c.CoreV1().Secrets(whose.Namespace).Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// rotate puts another authority there: with a certificate of it, without one, or before the old
// one.
func rotate(how int) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		validity := authority.Validity{NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(365 * day)}
		a, key := byHand(t, validity)
		edit(func(d map[string][]byte) {
			old := d["ca.crt"]
			d["ca.crt"], d["ca.key"] = a.CertPEM(), key
			switch how {
			case 0:
				var err error
				if d["tls.crt"], d["tls.key"], err = a.Serving("by hand", hosts, validity); err != nil {
					t.Error(err)
				}
			case 2:
				d["ca.crt"] = append(d["ca.crt"], old...)
			}
		})(t, c)
	}
}

// A replica that starts while others are at it, with a clock of its own or with other names,
// doesn't disturb them.
func TestAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before := c.secret(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		c.replica(ctx, &running)
		time.Sleep(time.Minute)
		c.call(t)
		if string(c.secret(t).Data["tls.crt"]) != string(before.Data["tls.crt"]) {
			t.Error("made anew")
		}
	})
}

// What has the Secret's name and isn't the installation's is left as it is, and what is to be
// removed isn't made again.
func TestNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: whose.Namespace,
			Name: whose.SecretName()}})
		o := NewOwn(Options{Installation: whose, Hosts: hosts, Client: client})
		o.Trusted()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- o.Run(ctx) }()
		time.Sleep(time.Minute)
		const want = `secrets "gatehouse-certificates" in namespace "gatehouse-system": ` +
			`metadata.labels[app.kubernetes.io/managed-by]: Invalid value: "": must be "gatehouse-webhook": it ` +
			`belongs to somebody else and is left as it is: delete it, or give this installation another name`
		for _, got := range []error{o.Ready(), func() error { _, err := o.GetCertificate(nil); return err }()} {
			if got == nil || got.Error() != want {
				t.Errorf("got  %v\nwant %s", got, want)
			}
		}
		secrets := client.CoreV1().Secrets(whose.Namespace)
		if err := secrets.Delete(t.Context(), whose.SecretName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := o.Ready(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Whenever a machine is put to sleep, for months, what has expired by then is replaced soon after.
func TestAsleep(t *testing.T) {
	for at, asleep := int64(1), true; asleep; at++ {
		asleep = false
		synctest.Test(t, func(t *testing.T) {
			o := NewOwn(Options{Installation: whose, Hosts: hosts, Client: fake.NewClientset()})
			sleeper := &sleeper{at: at}
			o.clock = sleeper
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() {
				if err := o.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Minute)
			bundle, _ := o.CABundle()
			o.Trusted(bundle) // which wakes it
			time.Sleep(look)
			asleep = sleeper.looks.Load() > at
			time.Sleep(time.Hour)
			pair, err := o.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			if now := sleeper.Now(); now.After(pair.Leaf.NotAfter) {
				t.Errorf("asleep from the %d. look at the clock on: at %s the certificate has expired at %s", at,
					now, pair.Leaf.NotAfter)
			}
		})
		if !asleep && at < 15 {
			t.Errorf("the clock was looked at %d times", at)
		}
	}
}

// sleeper is a clock of a machine that sleeps for 800 days after it was looked at so many times.
type sleeper struct {
	clock.RealClock
	at    int64
	looks atomic.Int64
}

// Now implements clock.Clock.
func (s *sleeper) Now() time.Time {
	if s.looks.Add(1) > s.at {
		return time.Now().Add(800 * day)
	}
	return time.Now()
}
