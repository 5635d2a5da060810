// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// The certificates of a backend are those that it shows, and are judged as calls judge them.
func TestCertificates(t *testing.T) {
	pool, err := backend.NewPool(backend.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := webhooktest.New(t, webhooktest.Allow())
	client, err := pool.Client(s.ClientConfig("/"))
	if err != nil {
		t.Fatal(err)
	}
	if shown, invalid, err := client.Certificates(t.Context()); err != nil || invalid != nil || len(shown) != 1 ||
		shown[0].Subject.CommonName != "webhooktest" {
		t.Errorf("%d certificates, invalid %v, error %v", len(shown), invalid, err)
	}
	s.UseCertificate(webhooktest.NewAuthority(t).Serving(time.Now().Add(time.Hour), "127.0.0.1"))
	_, invalid, err := client.Certificates(t.Context())
	if unknown := (x509.UnknownAuthorityError{}); err != nil || !errors.As(invalid, &unknown) {
		t.Errorf("of another authority: invalid %v, error %v", invalid, err)
	}
	s.UseCertificate(s.Authority.Serving(time.Now().Add(-time.Hour), "127.0.0.1"))
	_, invalid, err = client.Certificates(t.Context())
	if expired := (x509.CertificateInvalidError{}); err != nil || !errors.As(invalid, &expired) || expired.Reason != x509.Expired {
		t.Errorf("expired: invalid %v, error %v", invalid, err)
	}
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := client.Certificates(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: the error is %v", err)
	}
	local, err := backend.Local("http://"+s.Address(), s.ClientConfig("/"))
	if err != nil {
		t.Fatal(err)
	}
	if shown, invalid, err := local.Certificates(t.Context()); shown != nil || invalid != nil || err != nil {
		t.Errorf("of a local process: %v, invalid %v, error %v", shown, invalid, err)
	}
	if s.Calls() > 0 {
		t.Errorf("%d calls were made", s.Calls())
	}
}
