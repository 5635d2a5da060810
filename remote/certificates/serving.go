// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gatehouse.dev/internal/authority"
)

const (
	// settling is how long API servers may take to see a webhook configuration that is stored.
	settling = 30 * time.Second
	// departure is how long replicas may take to serve a certificate of another authority.
	departure = 10 * time.Minute
)

// serving chooses the certificate to serve among those that were offered. Own and Files share it.
type serving struct {
	clock clock.Clock
	// changed has an element if the bundle has changed, woken if choose has to be called again.
	// Each holds at most one element.
	changed, woken chan struct{}

	mu               sync.Mutex
	failure          error            // why there is no certificate; nil for there being none yet
	offered, current *tls.Certificate // the newest one, and the one that is served
	known            bool             // there was an offer
	bundle           []*x509.Certificate
	// departing are authorities that were in the bundle, with the time until which they still
	// count.
	departing map[string]time.Time
	// trusted are the authorities that all webhook configurations trust, each with the time since
	// when. It is nil if there are no webhook configurations.
	trusted map[string]time.Time
	told    bool // of webhook configurations, or that there are none
}

func newServing(c clock.Clock) serving {
	if c == nil {
		c = clock.RealClock{}
	}
	return serving{clock: c, changed: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		departing: map[string]time.Time{}}
}

// GetCertificate is for tls.Config.GetCertificate.
func (s *serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, s.missing()
	}
	return s.current, nil
}

func (s *serving) missing() error {
	if s.failure != nil {
		return s.failure
	}
	return errors.New("there is no serving certificate yet")
}

// Ready returns an error if API servers that call can't verify the serving certificate: there is
// none yet, or the webhook configurations don't trust it yet. It returns nil if they can, or if
// there are no configurations to call by.
func (s *serving) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return s.missing()
	}
	if !s.told {
		return errors.New("the webhook configurations haven't been read yet")
	}
	if s.trusted != nil && len(s.bundle) > 0 && !verifies(s.current, s.trusted, s.clock.Now(), 0) {
		return errors.New("the webhook configurations don't trust the serving certificate (yet)")
	}
	return nil
}

// CABundle returns the PEM with which webhook configurations have to verify, and whether it is
// known yet. A bundle that is known and empty stands for the roots that API servers trust anyway.
func (s *serving) CABundle() (bundle []byte, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encoded(), s.known
}

func (s *serving) encoded() []byte {
	if len(s.bundle) == 0 {
		return nil
	}
	bundle := authority.Encode(s.bundle...)
	for _, raw := range slices.Sorted(maps.Keys(s.departing)) {
		bundle = append(bundle, authority.Encode(&x509.Certificate{Raw: []byte(raw)})...)
	}
	return bundle
}

// Changed returns a channel that receives after the bundle has changed. It is for one receiver.
func (s *serving) Changed() <-chan struct{} { return s.changed }

// Trusted records the caBundles of all webhooks in all webhook configurations of this installation.
// It is called once at first and after each change, without bundles if there are no configurations.
// Before the first call no usable certificate is replaced.
func (s *serving) Trusted(bundles ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, now := s.trusted, s.clock.Now()
	s.trusted = nil
	for _, data := range bundles {
		certs, _ := cert.ParseCertsPEM(data) // what can't be parsed trusts nothing
		of := map[string]time.Time{}
		for _, c := range certs {
			since, ok := before[string(c.Raw)]
			if !ok {
				since = now
			}
			if _, ok := s.trusted[string(c.Raw)]; ok || s.trusted == nil {
				of[string(c.Raw)] = since
			}
			// Another replica may still serve a certificate that was trusted before this one began.
			if !s.told && c.IsCA && c.NotAfter.After(now) && !s.inBundle(c) {
				s.departing[string(c.Raw)] = now.Add(departure)
				notify(s.changed)
			}
		}
		s.trusted = of
	}
	s.told = true
	notify(s.woken)
}

func (s *serving) inBundle(c *x509.Certificate) bool { return slices.ContainsFunc(s.bundle, c.Equal) }

// offer records the newest certificate, and the authorities that verify it and the ones before it.
func (s *serving) offer(pair *tls.Certificate, bundle []*x509.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.clock.Now(), string(s.encoded())
	old := s.bundle
	s.bundle = bundle
	for _, c := range old {
		if !s.inBundle(c) && c.NotAfter.After(now) {
			s.departing[string(c.Raw)] = now.Add(departure)
		}
	}
	for _, c := range bundle {
		delete(s.departing, string(c.Raw))
	}
	s.offered, s.failure = pair, nil
	if s.current != nil && s.current.Leaf.Equal(pair.Leaf) {
		s.offered = s.current
	}
	if !s.known || before != string(s.encoded()) {
		notify(s.changed)
	}
	s.known = true
}

// fail records why there is no newer certificate.
func (s *serving) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// choose serves the offered certificate if it may be served now, and drops the authorities that
// have departed. It returns the latest time at which it has to be called again, or zero for never.
func (s *serving) choose() (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for raw, until := range s.departing {
		if now.Before(until) {
			next = earliest(next, until)
			continue
		}
		delete(s.departing, raw)
		notify(s.changed)
	}
	if s.offered == nil || s.offered == s.current {
		return next
	}
	switch {
	case s.current == nil || now.After(s.current.Leaf.NotAfter) || len(s.bundle) == 0 || s.trusted == nil && s.told:
	case verifies(s.offered, s.trusted, now, settling):
	default:
		for _, since := range s.trusted {
			if settled := since.Add(settling); settled.After(now) {
				next = earliest(next, settled)
			}
		}
		return next
	}
	s.current = s.offered
	klog.InfoS("Serving with a certificate", "issuer", s.current.Leaf.Issuer.CommonName, "notAfter",
		s.current.Leaf.NotAfter)
	return next
}

// verifies reports whether a certificate can be verified with what has been trusted for long
// enough.
func verifies(pair *tls.Certificate, trusted map[string]time.Time, now time.Time, longEnough time.Duration) bool {
	roots := x509.NewCertPool()
	for raw, since := range trusted {
		if c, err := x509.ParseCertificate([]byte(raw)); err == nil && !now.Before(since.Add(longEnough)) {
			roots.AddCert(c)
		}
	}
	return verify(pair, roots, now) == nil
}

// verify returns an error if a certificate can't be verified. It ignores that the certificate isn't
// valid yet by this replica's clock.
func verify(pair *tls.Certificate, roots *x509.CertPool, now time.Time) error {
	if now.Before(pair.Leaf.NotBefore) {
		now = pair.Leaf.NotBefore
	}
	intermediates := x509.NewCertPool()
	for _, raw := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(raw); err == nil {
			intermediates.AddCert(c)
		}
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now})
	return err
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
