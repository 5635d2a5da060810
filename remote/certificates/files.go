// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// rereadInterval is the time between reads of the files. If a Secret is mounted, a kubelet takes far
// longer to update them.
const rereadInterval = 10 * time.Second

// Files holds certificates that another program, such as cert-manager, keeps in files.
type Files struct {
	serving
	certFile, keyFile, caFile string
	hosts                     []string
	contents                  [3][]byte // what was offered last
	failed                    string    // why the files can't be used as they are; empty if they can
}

// NewFiles reads the PEM files of a serving certificate with its chain, its key, and the
// authorities to verify it with. Without caFile, a self-signed certificate is its own authority,
// and any other one is verified with the roots that API servers trust anyway. That choice holds as
// long as the process runs, because a caBundle can't say both. The certificate has to be valid for
// all hosts. A nil c means the real clock.
func NewFiles(certFile, keyFile, caFile string, hosts []string, c clock.Clock) (*Files, error) {
	f := &Files{serving: newServing(c), certFile: certFile, keyFile: keyFile, caFile: caFile, hosts: hosts}
	if err := f.read(); err != nil {
		return nil, err
	}
	f.choose()
	return f, nil
}

// Run follows the files until ctx is done. If they can't be used, for example because only one has
// been replaced yet, the previous ones are served, and the reason is logged.
func (f *Files) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		failed := ""
		if err := f.read(); err != nil {
			failed = err.Error()
		}
		if failed != f.failed && failed != "" { // once, not each time
			klog.ErrorS(nil, "Serving goes on with the certificate that there was", "err", failed)
		}
		f.failed = failed
		next := rereadInterval
		if due := f.choose(); !due.IsZero() {
			next = min(next, due.Sub(f.clock.Now()))
		}
		timer := f.clock.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-f.woken:
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

// read reads the files, and offers their contents if they have changed.
func (f *Files) read() error {
	var contents [3][]byte
	for i, name := range []string{f.certFile, f.keyFile, f.caFile} {
		if name == "" && i == 2 {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		contents[i] = data
	}
	if bytes.Equal(contents[0], f.contents[0]) && bytes.Equal(contents[1], f.contents[1]) &&
		bytes.Equal(contents[2], f.contents[2]) {
		return nil
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return fmt.Errorf("%s with %s: %w", f.certFile, f.keyFile, err)
	}
	for _, host := range f.hosts {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			return fmt.Errorf("%s: %w", f.certFile, err)
		}
	}
	var bundle []*x509.Certificate
	if f.caFile != "" {
		if bundle, err = cert.ParseCertsPEM(contents[2]); err != nil {
			return fmt.Errorf("%s: %w", f.caFile, err)
		}
		roots := x509.NewCertPool()
		for _, c := range bundle {
			roots.AddCert(c)
		}
		// Whether it has expired is for the API servers to say.
		if err := verify(&pair, roots, pair.Leaf.NotBefore); err != nil {
			return fmt.Errorf("%s with %s: %w", f.certFile, f.caFile, err)
		}
	} else if pair.Leaf.CheckSignature(pair.Leaf.SignatureAlgorithm, pair.Leaf.RawTBSCertificate,
		pair.Leaf.Signature) == nil {
		bundle = []*x509.Certificate{pair.Leaf}
	}
	if before, known := f.CABundle(); known && (len(before) == 0) != (len(bundle) == 0) {
		by := []string{"itself", "what API servers trust anyway"}
		if len(bundle) > 0 {
			slices.Reverse(by)
		}
		return fmt.Errorf("%s: the certificate before this one is verified with %s, this one with %s: API servers "+
			"can't be told of both: name the authorities of both in --tls-ca-file, or start the replicas again",
			f.certFile, by[0], by[1])
	}
	f.contents = contents
	f.offer(&pair, bundle)
	return nil
}
