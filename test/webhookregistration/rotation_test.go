// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/test/servertest"
)

const day = 24 * time.Hour

// settled is longer than replicas wait before they serve a certificate of another authority,
// departed longer than an authority is trusted that somebody took away.
const (
	settled  = 31 * time.Second
	departed = 11 * time.Minute
)

// Whatever becomes of the certificates, no call of 16 clients is refused meanwhile. Each call is a
// connection of its own, which verifies.
func TestRotation(t *testing.T) {
	secrets := cluster().Client.CoreV1().Secrets(namespace)
	// The authority is made 500 days ago, and the certificate 60 days ago.
	i := begin(t, -500*day, nil)
	for range 2 {
		i.start(i.clock, nil).ready()
	}
	servertest.Eventually(t, "certificates", func() bool { return i.trusts(1) })
	first := i.secret()
	i.clock.ahead(440 * day)
	servertest.Eventually(t, "another certificate", func() bool {
		return string(i.secret().Data["tls.crt"]) != string(first.Data["tls.crt"])
	})
	i.eventuallyAsked()
	end := i.load()
	i.more()
	rotated := func(what string, before map[string][]byte, authorities int) {
		t.Helper()
		servertest.Eventually(t, what, func() bool {
			return i.trusts(authorities) && string(i.secret().Data["ca.key"]) != string(before["ca.key"])
		})
		i.more()
		i.clock.ahead(settled)
		servertest.Retry(t, what, i.serving)
		i.more()
		i.clock.ahead(departed)
		i.more()
	}

	// Today both are renewed. The old authority is trusted until its end.
	before := i.secret().Data
	i.clock.ahead(60 * day)
	rotated("the authority and certificate to be renewed", before, 2)
	if !i.trusts(2) {
		t.Errorf("the old authority isn't trusted any more")
	}

	// Who deletes the Secret takes both authorities away.
	before = i.secret().Data
	if err := secrets.Delete(t.Context(), i.options.Installation().SecretName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rotated("the Secret to be made again", before, 3)
	servertest.Eventually(t, "the old authorities to go", func() bool { return i.trusts(1) })

	// Garbled
	before = i.secret().Data
	i.edit(func(data map[string][]byte) {
		for key := range data {
			data[key] = []byte("garbled")
		}
	})
	rotated("the Secret to be mended", before, 2)

	// Rotated by hand, with a certificate
	now := time.Now()
	validity := authority.Validity{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(90 * day)}
	key, err := authority.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	another, err := authority.New("by hand", key, validity)
	if err != nil {
		t.Fatal(err)
	}
	before = i.secret().Data
	i.edit(func(data map[string][]byte) {
		data["ca.crt"] = another.CertPEM()
		var errs [2]error
		data["ca.key"], errs[0] = another.KeyPEM()
		data["tls.crt"], data["tls.key"], errs[1] = another.Serving("by hand", i.options.Hosts(), validity)
		if err := errors.Join(errs[:]...); err != nil {
			t.Error(err)
		}
	})
	rotated("the authority made by hand", before, 2)
	if !strings.HasPrefix(string(i.secret().Data["ca.crt"]), string(another.CertPEM())) {
		t.Error("the authority made by hand isn't used")
	}
	asked := end()
	t.Logf("%d calls, %d reviews", asked, i.asked.Load())
	if asked < 500 {
		t.Errorf("asked %d times", asked)
	}
}

// serving is an error unless all replicas serve the certificate of the Secret.
func (i *installation) serving() error {
	i.t.Helper()
	s := i.secret()
	if s == nil {
		return errors.New("there is no Secret")
	}
	for _, r := range i.running() {
		pair, err := r.certificates.GetCertificate(nil)
		if err != nil {
			return err
		}
		if string(authority.Encode(pair.Leaf)) != string(s.Data["tls.crt"]) {
			return errors.New("another certificate is served than that in the Secret")
		}
	}
	return nil
}

func (i *installation) edit(change func(map[string][]byte)) {
	i.t.Helper()
	servertest.Retry(i.t, "the Secret to be edited", func() error {
		s := i.secret()
		change(s.Data)
		_, err := i.cluster.Client.CoreV1().Secrets(namespace).Update(i.t.Context(), s, metav1.UpdateOptions{})
		return err
	})
}

// A certificate that has expired, as after months without anybody, is refused, which is by failure
// policy, and is replaced when somebody is there.
func TestExpired(t *testing.T) {
	i := begin(t, -800*day, nil) // by now its authority has, too
	i.start(i.clock, nil).ready()
	servertest.Retry(t, "calls to be refused", func() error {
		if err := i.ask(); err == nil || !strings.Contains(err.Error(), "certificate has expired or is not yet valid") {
			return errors.Join(errors.New("refused"), err)
		}
		return nil
	})
	i.clock.ahead(800 * day)
	i.eventuallyAsked()
	servertest.Eventually(t, "only what holds to be trusted", func() bool { return i.trusts(1) })
}

// Replicas whose clocks are off, one ten minutes fast and more, the other slow, don't make
// certificates that an API server refuses, nor replace each other's.
func TestClocks(t *testing.T) {
	i := begin(t, 10*time.Minute, nil)
	slow := &shifted{off: -30 * time.Minute}
	i.start(i.clock, nil).ready()
	i.eventuallyAsked()
	before := i.secret()
	i.start(slow, nil).ready()
	end := i.load()
	i.more()
	for range 2 { // each looks at its certificates again
		i.clock.ahead(11 * time.Minute)
		slow.ahead(11 * time.Minute)
		i.more()
	}
	if asked := end(); asked < 100 {
		t.Errorf("asked %d times", asked)
	}
	if i.secret().ResourceVersion != before.ResourceVersion {
		t.Error("the Secret was written again")
	}
	// It is the slow one that makes them.
	slow.ahead(-10 * time.Minute)
	i.running()[0].stop()
	if err := i.cluster.Client.CoreV1().Secrets(namespace).Delete(t.Context(), before.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "another Secret", func() bool { return i.trusts(2) })
	servertest.Retry(t, "the slow one's certificate", func() error {
		slow.ahead(settled)
		return i.serving()
	})
	i.eventuallyAsked()
}

// While replicas can't reach the API server, they are asked and answer. What was broken in the
// meantime they mend after that.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	i := begin(t, 0, alone)
	server := strings.TrimPrefix(i.cluster.Config.Host, "https://")
	line := servertest.Forward(t, server)
	config := servertest.Quick(i.cluster.Config)
	config.Host = "https://" + line.Address
	client := kubernetes.NewForConfigOrDie(config)
	for range 2 {
		i.start(i.clock, client).ready()
	}
	i.eventuallyAsked()
	leases := i.cluster.Client.CoordinationV1().Leases(namespace)
	lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	end := i.load()
	line.Cut()
	// longer than the Lease is held
	until := lease.Spec.RenewTime.Add(20 * time.Second)
	servertest.Eventually(t, "the Lease to be lost", func() bool { return time.Now().After(until) })
	// With what is added below less than an hour: a certificate is good from an hour before its
	// making by this clock, and the API server goes by the real one.
	i.clock.ahead(time.Minute)
	i.more()
	if asked := end(); asked < 50 || line.Refused.Load() == 0 {
		t.Errorf("asked %d times, tried in vain %d times", asked, line.Refused.Load())
	}
	configurations := i.cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if err := errors.Join(configurations.Delete(t.Context(), name, metav1.DeleteOptions{}),
		i.cluster.Client.CoreV1().Secrets(namespace).Delete(t.Context(), i.options.Installation().SecretName(),
			metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	line.To(server)
	servertest.Retry(t, "all to be mended", func() error {
		i.clock.ahead(settled)
		if i.secret() == nil || i.mutating() == nil {
			return errors.New("it isn't there")
		}
		return i.ask()
	})
}
