// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	apiserverfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	"k8s.io/kubernetes/pkg/features"
	netutils "k8s.io/utils/net"

	"gatehouse.dev/apiserver/storage"
	"gatehouse.dev/apiserver/upstream"
)

// validate reports everything that is wrong at once.
func (o *Options) validate() error {
	var errs []error
	errs = append(errs, o.Run.Validate()...)
	if !o.Embedded() {
		errs = append(errs, o.Etcd.Validate()...)
	}
	if err := storage.CheckTLS(o.Etcd.StorageConfig.Transport); err != nil {
		errs = append(errs, fmt.Errorf("--etcd-cafile, --etcd-certfile, --etcd-keyfile: %w", err))
	}
	for _, override := range o.Etcd.EtcdServersOverrides {
		if strings.HasPrefix(override, "/resourcequotas#") {
			errs = append(errs,
				fmt.Errorf("--etcd-servers-overrides: %s: resource quotas must be in the main etcd cluster, whose "+
					"transactions they are charged in", override))
		}
	}
	errs = append(errs, o.SecureServing.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Traces.Validate()...)
	errs = append(errs, o.Features.Validate()...)
	for _, err := range o.APIEnablement.Validate(legacyscheme.Scheme, apiextensionsapiserver.Scheme,
		aggregatorscheme.Scheme, o.Former.Kinds().Scheme) {
		errs = append(errs, fmt.Errorf("--runtime-config: %w", err))
	}
	if file := o.Authentication.TokenFile; file != nil && file.TokenFile != "" {
		if _, err := tokenfile.NewCSV(file.TokenFile); err != nil {
			errs = append(errs, fmt.Errorf("--token-auth-file %s: %w", file.TokenFile, err))
		}
	}
	errs = append(errs, o.Metrics.Validate()...)
	errs = append(errs, o.validateServices()...)
	errs = append(errs, o.validateLeadership()...)
	errs = append(errs, o.validateTokens()...)
	errs = append(errs, o.validateFairness(), o.unsupported.validate())
	if (o.ProxyClientCertFile == "") != (o.ProxyClientKeyFile == "") {
		errs = append(errs,
			errors.New("--proxy-client-cert-file and --proxy-client-key-file must be specified together"))
	}
	return utilerrors.NewAggregate(errs)
}

func (o *Options) validateServices() (errs []error) {
	nodePort := o.KubernetesServiceNodePort
	if nodePort < 0 || nodePort > 65535 {
		errs = append(errs,
			fmt.Errorf("--kubernetes-service-node-port %d must be between 0 and 65535, inclusive. If 0, "+
				"the Kubernetes master service will be of type ClusterIP", nodePort))
	} else if nodePort > 0 && !o.ServiceNodePortRange.Contains(nodePort) {
		errs = append(errs, fmt.Errorf("--kubernetes-service-node-port: kubernetes service node port range %v doesn't "+
			"contain %d", o.ServiceNodePortRange, nodePort))
	}
	if o.MasterCount <= 0 {
		errs = append(errs, fmt.Errorf("--apiserver-count should be a positive number, but value '%d' provided",
			o.MasterCount))
	}
	if known := reconcilers.AllTypes; !slices.Contains(known, reconcilers.Type(o.EndpointReconcilerType)) {
		errs = append(errs, fmt.Errorf("--endpoint-reconciler-type: reconciler not implemented: %q is none of %s",
			o.EndpointReconcilerType, strings.Join(known.Names(), ", ")))
	}
	if o.publishEndpoints && netutils.IsIPv4CIDR(&o.serviceIPs[0]) != netutils.IsIPv4(o.Run.AdvertiseAddress) {
		errs = append(errs, fmt.Errorf("service IP family %q must match public address family %q",
			o.serviceIPs[0].String(), o.Run.AdvertiseAddress))
	}
	return errs
}

func (o *Options) validateLeadership() (errs []error) {
	times := o.LeaderElection
	if times.LeaseDuration <= times.RenewDeadline {
		errs = append(errs, errors.New("--coordinated-leadership-lease-duration must be greater than "+
			"--coordinated-leadership-renew-deadline"))
	}
	if times.RenewDeadline <= times.RetryPeriod {
		errs = append(errs, errors.New("--coordinated-leadership-renew-deadline must be greater than "+
			"--coordinated-leadership-retry-period"))
	}
	return errs
}

// validateTokens returns an error if the server has no key of its own to sign service account tokens,
// and the flags name no other.
func (o *Options) validateTokens() []error {
	accounts := o.Authentication.ServiceAccounts
	switch {
	case o.tokenIssuer != nil:
		return nil
	case o.ServiceAccountSigningKeyFile == "" && len(accounts.Issuers) == 0 && len(o.Authentication.APIAudiences) == 0:
		return []error{errors.New("--service-account-signing-key-file and --service-account-issuer are required flags")}
	default:
		return []error{errors.New("--service-account-signing-key-file, --service-account-issuer, and --api-audiences " +
			"should be specified together")}
	}
}

// abstractSocket matches the name of a socket without a file.
var abstractSocket = regexp.MustCompile(`^@([a-zA-Z0-9_-]+\.)*[a-zA-Z0-9_-]+$`)

func (o *Options) validateSigner() error {
	flag := "--" + serviceAccountSigningEndpoint
	switch endpoint := o.ServiceAccountSigningEndpoint; {
	case o.ServiceAccountSigningKeyFile != "" || len(o.Authentication.ServiceAccounts.KeyFiles) > 0:
		return fmt.Errorf("can't set `--%s` and/or `--service-account-key-file` with `%s` (They are mutually "+
			"exclusive)", serviceAccountSigningKey, flag)
	case !utilfeature.DefaultFeatureGate.Enabled(features.ExternalServiceAccountTokenSigner):
		return fmt.Errorf("setting `%s` requires enabling %s feature gate", flag,
			features.ExternalServiceAccountTokenSigner)
	case strings.HasPrefix(endpoint, "@") && !abstractSocket.MatchString(endpoint):
		return fmt.Errorf("invalid value %q passed for `%s`, when prefixed with @ must be a valid abstract socket name",
			endpoint, flag)
	}
	return nil
}

// validateFairness refuses priority and fairness without the API that it goes by.
func (o *Options) validateFairness() error {
	if !o.Features.EnablePriorityAndFairness {
		return nil
	}
	for _, key := range upstream.FairnessVersions {
		switch o.APIEnablement.RuntimeConfig[key] {
		case "false":
			return fmt.Errorf("--runtime-config=%s=false conflicts with --enable-priority-and-fairness=true", key)
		case "true":
			return nil
		}
	}
	return nil
}

// validate returns an error, with the reason, if one of these flags is set.
func (n unsupportedFlags) validate() error {
	if n.egressSelector != "" {
		return errors.New("--egress-selector-config-file: egress selectors are not supported: Gatehouse reaches " +
			"etcd, webhooks and nodes directly, or by HTTPS_PROXY")
	}
	for _, flag := range []struct{ name, value string }{
		{"--peer-ca-file", n.peerCA}, {"--peer-advertise-ip", n.peerIP}, {"--peer-advertise-port", n.peerPort},
	} {
		if flag.value == "" {
			continue
		}
		gate := apiserverfeatures.UnknownVersionInteroperabilityProxy
		if !utilfeature.DefaultFeatureGate.Enabled(gate) {
			return fmt.Errorf("%s requires %s feature to be turned on", flag.name, gate)
		}
		return fmt.Errorf("%s: the proxy between API servers of different versions is not supported", flag.name)
	}
	return nil
}
