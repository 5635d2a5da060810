// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/inventory"
)

// soon is how long before its end a certificate is worth a warning.
const soon = 30 * 24 * time.Hour

var certificateRules = []Rule{
	{"ca-invalid", Error, "a webhook's caBundle can't be parsed", (*linting).caInvalid},
	{"ca-missing", Warning, "a webhook of a cluster has no caBundle", (*linting).caMissing},
	{"ca-expired", Error, "a webhook's caBundle has expired", (*linting).caExpired},
	{"ca-expiring", Warning, "a webhook's certificates expire soon", (*linting).caExpiring},
	{"ca-mismatch", Error, "a webhook's caBundle is not that of its backend", (*linting).caMismatch},
}

// bundle returns the certificates of a caBundle.
func bundle(data []byte) (certificates []*x509.Certificate, _ error) {
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(bytes.TrimSpace(rest)) > 0 || len(certificates) == 0 {
				return certificates, fmt.Errorf("it isn't a list of certificates in PEM")
			}
			return certificates, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return certificates, err
		}
		certificates = append(certificates, certificate)
	}
}

// eachBundle calls do with each webhook that has a caBundle that can be parsed.
func (l *linting) eachBundle(do func(*inventory.Webhook, []*x509.Certificate)) {
	for _, w := range l.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			continue
		}
		if certificates, err := bundle(w.ClientConfig.CABundle); err == nil {
			do(w, certificates)
		}
	}
}

func (l *linting) caInvalid() {
	for _, w := range l.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			continue
		}
		if _, err := bundle(w.ClientConfig.CABundle); err != nil {
			l.add(at(w, "clientConfig/caBundle"), Error, change{}, fmt.Sprintf("caBundle can't be parsed: %v: API servers "+
				"refuse the configuration, or each call fails", err), "set caBundle to the certificate of the authority that "+
				"signed the backend's, in PEM and then base64")
		}
	}
}

// caMissing looks for webhooks without a caBundle in a cluster. In files it is often written later, by the
// program that makes the certificate.
func (l *linting) caMissing() {
	for _, w := range l.Webhooks {
		if l.Complete && len(w.ClientConfig.CABundle) == 0 && w.ClientConfig.Service != nil {
			l.add(at(w, "clientConfig"), Warning, change{}, "caBundle isn't set: API servers trust the roots of their own "+
				"system only, and few of these sign certificates of Services: calls fail, and "+consequence(w.Fails()),
				"set caBundle, or find out why the program that writes it doesn't")
		}
	}
}

// validUntil returns until when one of the certificates is valid.
func validUntil(certificates []*x509.Certificate) (until time.Time) {
	for _, c := range certificates {
		if c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	return until
}

func (l *linting) caExpired() {
	l.eachBundle(func(w *inventory.Webhook, certificates []*x509.Certificate) {
		if until := validUntil(certificates); until.Before(l.options.Now) {
			l.add(at(w, "clientConfig/caBundle"), Error, change{}, fmt.Sprintf("its caBundle expired on %s: each call fails, "+
				"and %s", until.Format(time.DateOnly), consequence(w.Fails())), "renew the certificates")
		}
	})
}

func (l *linting) caExpiring() {
	l.eachBundle(func(w *inventory.Webhook, certificates []*x509.Certificate) {
		if until := validUntil(certificates); !until.Before(l.options.Now) && until.Before(l.options.Now.Add(soon)) {
			l.add(at(w, "clientConfig/caBundle"), Warning, change{}, fmt.Sprintf("its caBundle expires on %s: then each call "+
				"fails, and %s", until.Format(time.DateOnly), consequence(w.Fails())), "renew the certificates")
		}
	})
	for _, s := range l.answers.shown {
		if until := s.certificate.NotAfter; s.invalid == nil && until.Before(l.options.Now.Add(soon)) {
			l.add(at(s.webhook, "clientConfig"), Warning, change{}, fmt.Sprintf("the certificate that its backend shows expires "+
				"on %s: then each call fails, and %s", until.Format(time.DateOnly), consequence(s.webhook.Fails())),
				"renew the certificate, or find out whether a program does")
		}
	}
}

// caMismatch compares a caBundle with the certificate that the backend shows, if it was asked, or else with the one
// in the Secret that the backend's pods mount, if the Secret is among the objects.
func (l *linting) caMismatch() {
	for _, s := range l.answers.shown {
		if s.invalid != nil {
			l.add(at(s.webhook, "clientConfig/caBundle"), Error, change{}, fmt.Sprintf("the certificate that its backend shows "+
				"isn't valid by caBundle: %v: each call fails, and %s", s.invalid, consequence(s.webhook.Fails())),
				"set caBundle to the authority that signed the certificate, or renew the certificate")
		}
	}
	l.eachBundle(func(w *inventory.Webhook, certificates []*x509.Certificate) {
		b := l.Backend(w)
		if b == nil || l.shows(w) {
			return
		}
		roots := x509.NewCertPool()
		for _, c := range certificates {
			roots.AddCert(c)
		}
		for _, workload := range b.Workloads {
			for _, volume := range workload.Spec.Volumes {
				if volume.Secret == nil {
					continue
				}
				name := types.NamespacedName{Namespace: b.Name.Namespace, Name: volume.Secret.SecretName}
				serving := l.servingCertificate(name)
				if serving == nil {
					continue
				}
				_, err := serving[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: pool(serving[1:]),
					CurrentTime: l.options.Now, DNSName: b.Name.Name + "." + b.Name.Namespace + ".svc"})
				if err != nil {
					l.add(at(w, "clientConfig/caBundle"), Error, change{}, fmt.Sprintf("the certificate in Secret %s, which its "+
						"pods mount, isn't valid by caBundle: %v: each call fails, and %s", name, err, consequence(w.Fails())),
						"set caBundle to the authority that signed the certificate")
				}
				return
			}
		}
	})
}

// shows reports whether the backend of a webhook showed its certificate.
func (l *linting) shows(w *inventory.Webhook) bool {
	return slices.ContainsFunc(l.answers.shown, func(s shownCertificate) bool { return s.webhook == w })
}

// servingCertificate returns the certificates in a Secret of type kubernetes.io/tls, or nil.
func (l *linting) servingCertificate(name types.NamespacedName) []*x509.Certificate {
	s := l.Secrets[name]
	if s == nil {
		return nil
	}
	data := s.Data[corev1.TLSCertKey]
	if text, ok := s.StringData[corev1.TLSCertKey]; ok {
		data = []byte(text)
	}
	certificates, err := bundle(data)
	if err != nil {
		return nil
	}
	return certificates
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}
