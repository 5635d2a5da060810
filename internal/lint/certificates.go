// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/count"
)

// soon is how long before its end a certificate is worth a warning.
const soon = 30 * 24 * time.Hour

var certificateRules = []Rule{
	{"ca-invalid", Error, "a webhook's caBundle can't be parsed", (*linting).caInvalid},
	{"ca-damaged", Warning, "a certificate in a webhook's caBundle can't be read", (*linting).caDamaged},
	{"ca-missing", Warning, "a webhook of a cluster has no caBundle", (*linting).caMissing},
	{"ca-expired", Error, "a webhook's caBundle has expired", (*linting).caExpired},
	{"ca-expiring", Warning, "a webhook's certificates expire soon", (*linting).caExpiring},
	{"ca-mismatch", Error, "a webhook's caBundle is not that of its backend", (*linting).caMismatch},
}

// bundle returns the certificates of a caBundle, as API servers read it: text around certificates doesn't matter, and
// neither does a certificate that can't be read if there is another one. damaged counts those.
func bundle(data []byte) (certificates []*x509.Certificate, damaged int) {
	begun := bytes.Count(data, []byte("-----BEGIN CERTIFICATE-----"))
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, certificate)
		}
	}
	return certificates, begun - len(certificates)
}

// eachBundle calls do with each callee that has a caBundle in which there are certificates.
func (l *linting) eachBundle(do func(c *callee, certificates []*x509.Certificate)) {
	for _, c := range l.callees() {
		if certificates, _ := bundle(c.clientConfig.CABundle); len(certificates) > 0 {
			do(&c, certificates)
		}
	}
}

func (l *linting) caInvalid() {
	for _, c := range l.callees() {
		if len(c.clientConfig.CABundle) == 0 {
			continue
		}
		if certificates, _ := bundle(c.clientConfig.CABundle); len(certificates) == 0 {
			l.add(c.at("caBundle"), Error, change{}, "caBundle has no certificate that can be read: API servers refuse the "+
				"object, or each call fails, and "+c.consequence, "set caBundle to the certificate of the authority that signed the "+
				"backend's, in PEM and then base64")
		}
	}
}

func (l *linting) caDamaged() {
	for _, c := range l.callees() {
		if certificates, damaged := bundle(c.clientConfig.CABundle); len(certificates) > 0 && damaged > 0 {
			l.add(c.at("caBundle"), Warning, change{}, fmt.Sprintf("%s of caBundle can't be read: API servers ignore that, and "+
				"trust only the rest (%d)", count.Of(damaged, "certificate"), len(certificates)),
				"write the whole certificate, or remove what is left of it")
		}
	}
}

// caMissing looks for webhooks without a caBundle in a cluster. In files it is often written later, by the
// program that makes the certificate.
func (l *linting) caMissing() {
	for _, c := range l.callees() {
		if l.Complete && len(c.clientConfig.CABundle) == 0 && c.clientConfig.Service != nil {
			l.add(c.at(""), Warning, change{}, "caBundle isn't set: API servers trust the roots of their own "+
				"system only, and few of these sign certificates of Services: calls fail, and "+c.consequence,
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
	l.eachBundle(func(c *callee, certificates []*x509.Certificate) {
		if until := validUntil(certificates); until.Before(l.options.Now) {
			l.add(c.at("caBundle"), Error, change{}, fmt.Sprintf("its caBundle expired on %s: each call fails, "+
				"and %s", until.Format(time.DateOnly), c.consequence), "renew the certificates")
		}
	})
}

func (l *linting) caExpiring() {
	l.eachBundle(func(c *callee, certificates []*x509.Certificate) {
		if until := validUntil(certificates); !until.Before(l.options.Now) && until.Before(l.options.Now.Add(soon)) {
			l.add(c.at("caBundle"), Warning, change{}, fmt.Sprintf("its caBundle expires on %s: then each call "+
				"fails, and %s", until.Format(time.DateOnly), c.consequence), "renew the certificates")
		}
	})
}

// caMismatch compares a caBundle with the certificate in the Secret that the backend's pods mount, if the Secret is
// among the objects.
func (l *linting) caMismatch() {
	l.eachBundle(func(c *callee, certificates []*x509.Certificate) {
		b := l.BackendOf(c.clientConfig.Service)
		if b == nil {
			return
		}
		roots := x509.NewCertPool()
		for _, root := range certificates {
			roots.AddCert(root)
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
					l.add(c.at("caBundle"), Error, change{}, fmt.Sprintf("the certificate in Secret %s, which its "+
						"pods mount, isn't valid by caBundle: %v: each call fails, and %s", name, err, c.consequence),
						"set caBundle to the authority that signed the certificate")
				}
				return
			}
		}
	})
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
	certificates, _ := bundle(data)
	return certificates
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}
