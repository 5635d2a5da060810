// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// A backend that works, then doesn't, and then works again, is called again with the next request,
// and as before: on one connection.
func TestBackendRecovers(t *testing.T) {
	leakFree(t)
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow())
	remove := install(t, validatingPhase, ns, faulty{backend: b.ClientConfig("/"), timeout: 2})
	for _, test := range []struct {
		name           string
		fault, recover func()
		want           string
	}{
		{"down", b.Stop, b.Restart, `dial tcp \S+ connect: connection refused`},
		{"frozen", b.Freeze, b.Restart, "context deadline exceeded"},
		{"expired", func() {
			b.UseCertificate(b.Authority.Serving(time.Now().Add(-time.Minute), "127.0.0.1"))
			b.Restart()
		}, b.Rotate, "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: .*"},
		{"hanging", func() { b.SetHandler(webhooktest.Hang()) }, func() { b.SetHandler(webhooktest.Allow()) },
			"context deadline exceeded"},
		{"aborting", func() {
			b.SetHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		}, func() { b.SetHandler(webhooktest.Allow()) }, "stream error: .*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := createMap(t.Context(), ns, newMap(test.name+"-before")); err != nil {
				t.Fatal(err)
			}
			test.fault()
			err := noticed(t, func() error { return createMap(t.Context(), ns, newMap(test.name)) })
			wantStatus(t, err, http.StatusInternalServerError, metav1.StatusReasonInternalError,
				calling("validating.example.com")+post+test.want)
			wantStored(t, ns, test.name, false)
			test.recover()
			// A call can still go down the connection that has just died.
			servertest.Eventually(t, "calls to succeed again",
				func() bool { return createMap(t.Context(), ns, newMap(test.name+"-after")) == nil })
			servertest.Eventually(t, "one connection", func() bool { return b.Connections() == 1 })
			calls, handshakes := b.Calls(), b.Handshakes()
			for _, suffix := range []string{"-then", "-later", "-last"} {
				if err := createMap(t.Context(), ns, newMap(test.name+suffix)); err != nil {
					t.Error(err)
				}
			}
			if b.Calls() != calls+3 || b.Handshakes() != handshakes {
				t.Errorf("three calls were %d, with %d handshakes", b.Calls()-calls, b.Handshakes()-handshakes)
			}
		})
	}
	remove()
	unconnected(t, b)
}

// Certificates of a running backend are rotated, first under the same authority, then to another
// one, as it's done: the caBundle trusts both, the backend changes its certificate, the caBundle
// trusts the new one only. No request fails, but for one that goes down a connection which the
// backend's restart has just ended.
func TestCertificatesAreRotated(t *testing.T) {
	leakFree(t)
	ns := namespace(t)
	b := newBackend(t, allow)
	remove := install(t, validatingPhase, ns, faulty{backend: b.ClientConfig("/")})
	write := func(name string) {
		t.Helper()
		if err := createMap(t.Context(), ns, newMap(name)); err != nil {
			t.Error(err)
		}
	}
	write("first")
	b.Rotate()
	write("on-the-old-connection")
	if n := b.Handshakes(); n != 1 {
		t.Errorf("a new certificate has cost %d handshakes", n-1)
	}
	b.Restart()
	servertest.Eventually(t, "calls to succeed again",
		func() bool { return createMap(t.Context(), ns, newMap("rotated")) == nil })
	if n := b.Handshakes(); n != 2 {
		t.Errorf("after a restart there were %d handshakes", n-1)
	}

	other := webhooktest.NewAuthority(t)
	trust(t, ns, slices.Concat(b.Authority.PEM(), other.PEM()))
	write("both-trusted")
	b.UseCertificate(other.Serving(time.Now().Add(time.Hour), "127.0.0.1"))
	b.Restart()
	servertest.Eventually(t, "calls to succeed again",
		func() bool { return createMap(t.Context(), ns, newMap("by-the-other")) == nil })
	trust(t, ns, other.PEM())
	write("other-trusted")

	// Who isn't trusted any more isn't called, not even on the connection that was made when it
	// was.
	calls := len(b.asked())
	trust(t, ns, webhooktest.NewAuthority(t).PEM())
	wantStatus(t, createMap(t.Context(), ns, newMap("untrusted")), http.StatusInternalServerError,
		metav1.StatusReasonInternalError,
		calling("validating.example.com")+post+"tls: failed to verify certificate: x509: certificate signed by "+
			"unknown authority.*")
	if len(b.asked()) != calls {
		t.Error("it was called")
	}
	remove()
	unconnected(t, b.Server)
}

// trust changes the caBundle of the namespace's validating webhook, and waits until that is in
// force.
func trust(t *testing.T, ns string, caBundle []byte) {
	t.Helper()
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := configurations.Get(t.Context(), string(validatingPhase)+"-"+ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Webhooks[0].ClientConfig.CABundle = caBundle
	// A probe of its own tells when the change is in force.
	prober := webhooktest.New(t, webhooktest.Deny(http.StatusTeapot, "in force"))
	c.Webhooks[1].ClientConfig = prober.ClientConfig("/")
	if _, err := configurations.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the change to be in force",
		func() bool { return isProbed(t, validatingPhase, ns) && prober.Calls() > 0 })
}
