// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// unsupportedFlags are flags of kube-apiserver for features that Gatehouse doesn't have. They are known,
// so that the start fails with the reason.
type unsupportedFlags struct {
	egressSelector, peerCA, peerIP, peerPort string
}

// AddFlags adds a flag for every option to its group in fss: kube-apiserver's, all but those of
// admission and of logs.
func (o *Options) AddFlags(fss *cliflag.NamedFlagSets) {
	o.SecureServing.AddFlags(fss.FlagSet("secure serving"))
	o.Etcd.AddFlags(fss.FlagSet("etcd"))
	o.Authentication.AddFlags(fss.FlagSet("authentication"))
	o.addTokenFlags(fss.FlagSet("authentication"))
	o.Authorization.AddFlags(fss.FlagSet("authorization"))
	o.APIEnablement.AddFlags(fss.FlagSet("API enablement"))
	o.Audit.AddFlags(fss.FlagSet("auditing"))
	o.Traces.AddFlags(fss.FlagSet("traces"))
	o.Metrics.AddFlags(fss.FlagSet("metrics"))
	o.Features.AddFlags(fss.FlagSet("features"))
	o.Run.AddUniversalFlags(fss.FlagSet("generic"))
	o.addWorkloadFlags(fss.FlagSet("workloads"))
	o.addServiceFlags(fss.FlagSet("services"))
	o.addKubeletFlags(fss.FlagSet("kubelet"))
	o.addAggregationFlags(fss.FlagSet("aggregation"))
	o.addLeadershipFlags(fss.FlagSet("coordinated leadership"))
	o.unsupported.addFlags(fss.FlagSet("not supported"))
}

func (o *Options) addTokenFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ServiceAccountSigningKeyFile, serviceAccountSigningKey, o.ServiceAccountSigningKeyFile,
		"File with the private key that signs service account tokens."+o.ownHelp(" A key of the server's own if empty."))
	fs.StringVar(&o.ServiceAccountSigningEndpoint, serviceAccountSigningEndpoint, o.ServiceAccountSigningEndpoint,
		"Socket at which an external signer of service account tokens listens, in place of keys of the server's.")
}

func (o *Options) addWorkloadFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.AllowPrivileged, "allow-privileged", o.AllowPrivileged, "If true, allow privileged containers.")
	fs.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "Amount of time to retain events.")
	fs.Int64Var(&o.MaxConnectionBytesPerSec, "max-connection-bytes-per-sec", o.MaxConnectionBytesPerSec,
		"Throttle each user's long-running connection to a pod to this many bytes a second; 0 for no limit.")
	fs.BoolVar(&o.EnableLogsHandler, "enable-logs-handler", o.EnableLogsHandler,
		"If true, serve the machine's /var/log at /logs.")
}

func (o *Options) addServiceFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ServiceClusterIPRanges, "service-cluster-ip-range", o.ServiceClusterIPRanges,
		"A CIDR notation IP range from which to assign service cluster IPs; two, of different families, for a "+
			"dual-stack cluster.")
	fs.Var(&o.ServiceNodePortRange, "service-node-port-range",
		"The range of ports of Services with NodePort visibility, both ends included, as 30000-32767.")
	fs.IntVar(&o.KubernetesServiceNodePort, "kubernetes-service-node-port", o.KubernetesServiceNodePort,
		"The port at which every node would have the kubernetes Service; 0 for a Service of type ClusterIP.")
	fs.StringVar(&o.EndpointReconcilerType, "endpoint-reconciler-type", o.EndpointReconcilerType,
		"What keeps the endpoints of the kubernetes Service: "+strings.Join(reconcilers.AllTypes.Names(), ", ")+".")
	fs.IntVar(&o.MasterCount, "apiserver-count", o.MasterCount,
		"The number of API servers, for --endpoint-reconciler-type=master-count.")
	deprecated(fs, "apiserver-count", "apiserver-count is deprecated and will be removed in a future version.")
}

func (o *Options) addKubeletFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Kubelet.PreferredAddressTypes, "kubelet-preferred-address-types",
		o.Kubelet.PreferredAddressTypes,
		"List of the preferred NodeAddressTypes to use for kubelet connections.")
	fs.DurationVar(&o.Kubelet.HTTPTimeout, "kubelet-timeout", o.Kubelet.HTTPTimeout, "Timeout for kubelet operations.")
	fs.StringVar(&o.Kubelet.TLSClientConfig.CertFile, "kubelet-client-certificate", "",
		"Path to a client cert file for TLS.")
	fs.StringVar(&o.Kubelet.TLSClientConfig.KeyFile, "kubelet-client-key", "", "Path to a client key file for TLS.")
	fs.StringVar(&o.Kubelet.TLSClientConfig.CAFile, "kubelet-certificate-authority", "",
		"Path to a cert file for the certificate authority.")
	fs.UintVar(&o.Kubelet.Port, "kubelet-port", o.Kubelet.Port, "The kubelets' port.")
	deprecated(fs, "kubelet-port", "kubelet-port is deprecated and will be removed.")
	fs.UintVar(&o.Kubelet.ReadOnlyPort, "kubelet-read-only-port", o.Kubelet.ReadOnlyPort,
		"The kubelets' read-only port.")
	deprecated(fs, "kubelet-read-only-port", "kubelet-read-only-port is deprecated and will be removed.")
}

func (o *Options) addAggregationFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"Client certificate with which requests are passed on to aggregated API servers.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile,
		"Private key of --proxy-client-cert-file.")
	fs.BoolVar(&o.EnableAggregatorRouting, "enable-aggregator-routing", o.EnableAggregatorRouting,
		"Turns on aggregator routing requests to endpoints IP rather than cluster IP.")
	fs.BoolVar(&o.AggregatorRejectForwardingRedirects, "aggregator-reject-forwarding-redirect",
		o.AggregatorRejectForwardingRedirects, "Keep redirects of aggregated API servers from clients.")
}

func (o *Options) addLeadershipFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.LeaderElection.LeaseDuration, "coordinated-leadership-lease-duration",
		o.LeaderElection.LeaseDuration, "The duration of the lease used for Coordinated Leader Election.")
	fs.DurationVar(&o.LeaderElection.RenewDeadline, "coordinated-leadership-renew-deadline",
		o.LeaderElection.RenewDeadline, "The deadline for renewing a coordinated leader election lease.")
	fs.DurationVar(&o.LeaderElection.RetryPeriod, "coordinated-leadership-retry-period",
		o.LeaderElection.RetryPeriod, "The period for retrying to renew a coordinated leader election lease.")
}

func (n *unsupportedFlags) addFlags(fs *pflag.FlagSet) {
	for name, value := range map[string]*string{
		"egress-selector-config-file": &n.egressSelector,
		"peer-ca-file":                &n.peerCA,
		"peer-advertise-ip":           &n.peerIP,
		"peer-advertise-port":         &n.peerPort,
	} {
		fs.StringVar(value, name, "", "kube-apiserver's. It isn't supported here, and ends the start.")
	}
}

// ownHelp returns help about the files of a server's own, or nothing if it has no data directory.
func (o *Options) ownHelp(help string) string {
	if o.hasOwn() {
		return help
	}
	return ""
}

func deprecated(fs *pflag.FlagSet, name, message string) {
	if err := fs.MarkDeprecated(name, message); err != nil {
		panic(fmt.Sprintf("flag %s: %v", name, err)) // it is one of those above
	}
}
