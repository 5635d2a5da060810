// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/apis/authentication/validation"
	"k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount/externaljwt/plugin"

	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/apiserver/upstream"
)

func (o *Options) pkiDir() string { return filepath.Join(o.DataDir, datadir.PKI) }

func (o *Options) etcdDir() string { return filepath.Join(o.DataDir, datadir.Etcd) }

// completeCertificates makes an authority of the server's own and a serving certificate, if they
// are missing. It uses given ones, and those in --cert-dir, which it never overwrites.
func (o *Options) completeCertificates() (err error) {
	if !o.hasOwn() {
		if o.authority, err = pki.NewAuthority(); err != nil {
			return err
		}
		if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts(o.Run.AdvertiseAddress.String(), upstream.ServiceNames,
			[]net.IP{o.apiServiceIP}); err != nil {
			return fmt.Errorf("error creating self-signed certificates: %w", err)
		}
		return nil
	}
	if o.authority, err = pki.LoadAuthority(o.pkiDir()); err != nil {
		return fmt.Errorf("certificates in data directory %s: %w", o.DataDir, err)
	}
	files := &o.SecureServing.ServerCert.CertKey
	switch {
	case files.CertFile != "" && files.KeyFile != "":
		return nil
	case files.CertFile != "" || files.KeyFile != "":
		return errors.New("--tls-cert-file and --tls-private-key-file must be specified together")
	}
	dir, name := o.SecureServing.ServerCert.CertDirectory, o.SecureServing.ServerCert.PairName
	given := dir != ""
	if !given {
		dir = o.pkiDir()
	}
	files.CertFile, files.KeyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if given {
		if there, err := cert.CanReadCertAndKey(files.CertFile, files.KeyFile); there || err != nil {
			return err
		}
	}
	if err := o.makeServingCertificate(); err != nil {
		return fmt.Errorf("certificates in directory %s: %w", dir, err)
	}
	return nil
}

// makeServingCertificate writes a certificate of the server's own authority, for all that the
// server may be called.
func (o *Options) makeServingCertificate() error {
	hosts := append([]string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc.cluster.local",
		o.apiServiceIP.String(), o.Run.AdvertiseAddress.String(), o.Run.ExternalHost}, upstream.ServiceNames...)
	if bind := o.SecureServing.BindAddress; !bind.IsUnspecified() {
		hosts = append(hosts, bind.String())
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	certPEM, keyPEM, err := o.authority.Serving("kube-apiserver", hosts)
	if err != nil {
		return err
	}
	files := o.SecureServing.ServerCert.CertKey
	if err := pki.WriteFile(files.KeyFile, keyPEM); err != nil {
		return err
	}
	return pki.WriteFile(files.CertFile, certPEM)
}

// servingCA returns what a client must trust to trust the serving certificate: the server's own
// authority if that has signed it, or else the certificate itself.
func (o *Options) servingCA() ([]byte, error) {
	data, err := os.ReadFile(o.SecureServing.ServerCert.CertKey.CertFile)
	if err != nil {
		return nil, err
	}
	certs, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, err
	}
	own := x509.NewCertPool()
	own.AppendCertsFromPEM(o.authority.CertPEM())
	if _, err := certs[0].Verify(x509.VerifyOptions{Roots: own}); err == nil {
		return o.authority.CertPEM(), nil
	}
	return data, nil
}

// completeServiceAccounts sees to it that somebody signs service account tokens.
func (o *Options) completeServiceAccounts(ctx context.Context) error {
	accounts := o.Authentication.ServiceAccounts
	if lifetime := accounts.MaxExpiration; lifetime != 0 &&
		(lifetime < time.Hour || lifetime > time.Duration(1<<32)*time.Second) {
		return errors.New("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	if len(accounts.Issuers) == 0 && o.hasOwn() {
		accounts.Issuers = []string{defaultIssuer}
	}
	if len(accounts.Issuers) == 0 || accounts.Issuers[0] == "" {
		return nil // validate says what is missing
	}
	if o.ServiceAccountSigningEndpoint != "" {
		return o.useSigner(ctx)
	}
	if o.ServiceAccountSigningKeyFile == "" && o.hasOwn() {
		if len(accounts.KeyFiles) > 0 {
			return fmt.Errorf("--service-account-key-file needs --%s: tokens signed with the server's own key would "+
				"not be accepted", serviceAccountSigningKey)
		}
		file, err := pki.TokenKey(o.pkiDir())
		if err != nil {
			return fmt.Errorf("service account key: %w", err)
		}
		o.ServiceAccountSigningKeyFile = file
	}
	if o.ServiceAccountSigningKeyFile == "" {
		return nil
	}
	if len(accounts.KeyFiles) == 0 && o.hasOwn() {
		// A private key file tells its public key, too.
		accounts.KeyFiles = []string{o.ServiceAccountSigningKeyFile}
	}
	key, err := keyutil.PrivateKeyFromFile(o.ServiceAccountSigningKeyFile)
	if err != nil {
		return fmt.Errorf("--%s: %w", serviceAccountSigningKey, err)
	}
	if o.tokenIssuer, err = serviceaccount.JWTTokenGenerator(accounts.Issuers[0], key); err != nil {
		return fmt.Errorf("--%s: %w", serviceAccountSigningKey, err)
	}
	return nil
}

// useSigner has tokens signed by the external signer, whose public keys and whose longest lifetime
// they then have.
func (o *Options) useSigner(ctx context.Context) error {
	if err := o.validateSigner(); err != nil {
		return err
	}
	accounts := o.Authentication.ServiceAccounts
	signer, keys, err := plugin.New(ctx, accounts.Issuers[0], o.ServiceAccountSigningEndpoint, upstream.SignerKeysTimeout, false)
	if err != nil {
		return fmt.Errorf("--%s: %w", serviceAccountSigningEndpoint, err)
	}
	limited, cancel := context.WithTimeout(ctx, upstream.SignerLimitsTimeout)
	defer cancel()
	metadata, err := signer.GetServiceMetadata(limited)
	if err != nil {
		return fmt.Errorf("--%s: %w", serviceAccountSigningEndpoint, err)
	}
	if metadata.MaxTokenExpirationSeconds < validation.MinTokenAgeSec {
		return fmt.Errorf("--%s: max token life supported by external-jwt-signer (%ds) is less than acceptable "+
			"(min %ds)", serviceAccountSigningEndpoint, metadata.MaxTokenExpirationSeconds, validation.MinTokenAgeSec)
	}
	longest := time.Duration(metadata.MaxTokenExpirationSeconds) * time.Second
	if accounts.MaxExpiration > longest {
		return fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration "+
			"supported by service-account-signing-endpoint: %s > %s", accounts.MaxExpiration, longest)
	}
	if accounts.MaxExpiration == 0 {
		accounts.MaxExpiration = longest
	}
	accounts.MaxExtendedExpiration = min(longest, accounts.MaxExtendedExpiration)
	accounts.ExternalPublicKeysGetter = keys
	o.tokenIssuer = signer
	return nil
}
