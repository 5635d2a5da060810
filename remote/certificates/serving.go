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

// serving is what Own and Files have in common: which of the certificates that there were is
// served.
type serving struct {
	clock clock.Clock
	// changed has an element where the bundle has changed, woken where it is to be looked at what
	// is served. Both are never more than one behind.
	changed, woken chan struct{}

	mu               sync.Mutex
	failure          error            // why there is no certificate; nil for there being none yet
	offered, current *tls.Certificate // the newest one, and the one that is served
	known            bool             // there was an offer
	bundle           []*x509.Certificate
	// departing are authorities that were in the bundle, and until when they count.
	departing map[string]time.Time
	// trusted are the authorities that all webhook configurations trust, and since when; nil where
	// there are no webhook configurations.
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

// GetCertificate is a tls.Config's.
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

// Ready is why API servers that call can't verify the serving certificate: because there is none
// yet, or because the webhook configurations don't trust it (yet). It is nil where they can, and
// where there are no configurations to call by.
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

// CABundle is what webhook configurations have to verify with, in PEM form, and whether that is
// known yet. Where it is known and empty, it is what API servers trust anyway.
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

// Changed receives when what CABundle returns has changed. It is for one to receive from.
func (s *serving) Changed() <-chan struct{} { return s.changed }

// Trusted is told of the caBundles of all webhooks of all webhook configurations that API servers
// have of this installation, at first and whenever one changes; of none where there are none.
// Before that no certificate is replaced that is of use.
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
			// What was trusted before this replica began may be what another one still serves.
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

// offer is told of the newest certificate, and of the authorities to verify it and those before it
// with.
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

// fail is told why there is no newer certificate.
func (s *serving) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}

// choose serves what was offered if it may be served now, and forgets the authorities that have
// departed. It returns when it is to be called again at the latest; zero is for never.
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

// verifies tells whether a certificate can be verified with what has been trusted for a time.
func verifies(pair *tls.Certificate, trusted map[string]time.Time, now time.Time, longEnough time.Duration) bool {
	roots := x509.NewCertPool()
	for raw, since := range trusted {
		if c, err := x509.ParseCertificate([]byte(raw)); err == nil && !now.Before(since.Add(longEnough)) {
			roots.AddCert(c)
		}
	}
	return verify(pair, roots, now) == nil
}

// verify is why a certificate can't be verified, other than that by this replica's clock it isn't
// valid yet.
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
