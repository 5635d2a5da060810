// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/flagz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/cluster/ports"
	"k8s.io/kubernetes/pkg/controlplane/controller/leaderelection"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/apiserver/pki"
)

const (
	// DefaultDataDir is where a server keeps everything unless told otherwise.
	DefaultDataDir = "gatehouse-data"

	defaultIssuer            = "https://kubernetes.default.svc.cluster.local"
	defaultServiceCIDR       = "10.96.0.0/12"
	defaultEventTTL          = time.Hour
	watchTermination         = 5 * time.Second
	serviceAccountSigningKey = "service-account-signing-key-file"

	serviceAccountSigningEndpoint = "service-account-signing-endpoint"
)

// Options configure a server. NewOptions returns those of a server with no configuration,
// NewKubeAPIServerOptions kube-apiserver's. Flags have kube-apiserver's names and meanings.
type Options struct {
	// DataDir holds the embedded etcd's data, the server's own certificates and the administrator's
	// kubeconfig. If it is empty, the server has nothing of its own and keeps nothing: etcd, keys and
	// authorities must all be given, as to kube-apiserver.
	DataDir string

	Run            *genericoptions.ServerRunOptions
	Etcd           *genericoptions.EtcdOptions
	SecureServing  *genericoptions.SecureServingOptions
	Audit          *genericoptions.AuditOptions
	Traces         *genericoptions.TracingOptions
	Features       *genericoptions.FeatureOptions
	Authentication *kubeoptions.BuiltInAuthenticationOptions
	Authorization  *kubeoptions.BuiltInAuthorizationOptions
	APIEnablement  *genericoptions.APIEnablementOptions
	Metrics        *metrics.Options
	Kubelet        kubeletclient.KubeletClientConfig

	// RequiredAPIs are resources that plugins need, with the plugins' names. Former's among them
	// are served besides those that --runtime-config switches on. If it switches one off, that is
	// an error.
	RequiredAPIs map[schema.GroupVersionResource][]string

	// ReportedVersion is the version that /version has for gitVersion; empty for its own.
	ReportedVersion string

	// Flagz are the flags that /flagz shows; nil if the server has none.
	Flagz flagz.Reader

	// Extensions are further APIs to serve.
	Extensions []Extension
	// Filters are put around the handlers of all APIs, behind authorization, as those of Extensions are.
	Filters []func(http.Handler) http.Handler

	// InProcess is for a server that only its own process calls, by Handler: it doesn't listen.
	InProcess bool

	// WebhookTokens has admission webhooks be shown tokens if the feature gate
	// APIServerWebhookAuthenticationToken is on.
	WebhookTokens bool

	// NoConversion is the error of calls of conversion webhooks; nil if they are made.
	NoConversion error

	// Former serves what Kubernetes doesn't.
	Former Former

	// WholePods keeps all of a pod in the server's own cache, for others that share it; see package
	// podcache.
	WholePods bool

	// CountQuotas makes the writes of objects move the usage that ResourceQuotas show. It is for servers with
	// a plugin that enforces quotas.
	CountQuotas bool
	// KeepQuotaStatus keeps the status of a quota that a client writes; see ledger.Options.
	KeepQuotaStatus bool

	// EventTTL is how long events are kept.
	EventTTL time.Duration
	// ServiceClusterIPRanges is one CIDR, or two of different families separated by a comma.
	ServiceClusterIPRanges string
	// AllowPrivileged admits privileged containers, as every real cluster does.
	AllowPrivileged bool
	// ServiceNodePortRange are the ports that Services of type NodePort get.
	ServiceNodePortRange utilnet.PortRange
	// KubernetesServiceNodePort makes the kubernetes Service one of type NodePort, at this port; 0
	// leaves it at its cluster IP.
	KubernetesServiceNodePort int
	// EndpointReconcilerType says how the kubernetes Service gets its endpoints. It is one of the
	// reconcilers package's types. MasterCount is the number of servers, for the type that counts
	// them.
	EndpointReconcilerType string
	MasterCount            int
	// MaxConnectionBytesPerSec limits what a user's long-running request to a pod may transfer; 0
	// is no limit.
	MaxConnectionBytesPerSec int64
	// EnableLogsHandler serves the machine's /var/log at /logs.
	EnableLogsHandler bool
	// LeaderElection has the times of coordinated leader election, if its feature gate is on.
	LeaderElection leaderelection.LeaderElectionTimers
	// ServiceAccountSigningKeyFile signs service account tokens; empty for a key of the server's
	// own. ServiceAccountSigningEndpoint is the socket of an external signer.
	ServiceAccountSigningKeyFile, ServiceAccountSigningEndpoint string
	// ProxyClientCertFile and ProxyClientKeyFile identify this server to aggregated API servers.
	ProxyClientCertFile, ProxyClientKeyFile string
	// EnableAggregatorRouting makes aggregated APIs and conversion webhooks be reached at their
	// Services' endpoints. Otherwise they are at the cluster IPs, which something must route.
	EnableAggregatorRouting bool
	// AggregatorRejectForwardingRedirects keeps redirects of aggregated API servers from clients.
	AggregatorRejectForwardingRedirects bool

	unsupported unsupportedFlags

	// The rest is derived by complete.

	authority        *pki.Authority
	tokenIssuer      serviceaccount.TokenGenerator
	serviceIPs       [2]net.IPNet // the second is empty in a single-stack cluster
	apiServiceIP     net.IP
	publishEndpoints bool
	sharesEtcd       bool // whether other servers may use the same etcd
}

// NewKubeAPIServerOptions returns the options of kube-apiserver, with its defaults.
func NewKubeAPIServerOptions() *Options {
	o := &Options{
		Former: none{},
		Run:    genericoptions.NewServerRunOptions(),
		Etcd: genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig(kubeoptions.DefaultEtcdPathPrefix,
			nil)),
		SecureServing:  kubeoptions.NewSecureServingOptions().SecureServingOptions,
		Audit:          genericoptions.NewAuditOptions(),
		Traces:         genericoptions.NewTracingOptions(),
		Features:       genericoptions.NewFeatureOptions(),
		Authentication: kubeoptions.NewBuiltInAuthenticationOptions().WithAll(),
		Authorization:  kubeoptions.NewBuiltInAuthorizationOptions(),
		APIEnablement:  genericoptions.NewAPIEnablementOptions(),
		Metrics:        metrics.NewOptions(),
		Kubelet: kubeletclient.KubeletClientConfig{
			Port:         ports.KubeletPort,
			ReadOnlyPort: ports.KubeletReadOnlyPort,
			PreferredAddressTypes: []string{
				string(corev1.NodeHostName),
				string(corev1.NodeInternalDNS),
				string(corev1.NodeInternalIP),
				string(corev1.NodeExternalDNS),
				string(corev1.NodeExternalIP),
			},
			HTTPTimeout: 5 * time.Second,
		},
		EventTTL:               defaultEventTTL,
		ServiceNodePortRange:   kubeoptions.DefaultServiceNodePortRange,
		EndpointReconcilerType: string(reconcilers.LeaseEndpointReconcilerType),
		MasterCount:            1,
		LeaderElection: leaderelection.LeaderElectionTimers{LeaseDuration: 15 * time.Second,
			RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		AggregatorRejectForwardingRedirects: true,
	}
	o.Etcd.DefaultStorageMediaType = "application/vnd.kubernetes.protobuf"
	return o
}

// NewOptions returns the options of a server with no configuration: everything of its own, on
// 127.0.0.1:6443.
func NewOptions() *Options {
	o := NewKubeAPIServerOptions()
	o.DataDir = DefaultDataDir
	o.ServiceClusterIPRanges = defaultServiceCIDR
	o.AllowPrivileged = true
	o.WebhookTokens = true
	o.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	o.SecureServing.ServerCert.CertDirectory = ""
	// A stop ends the watches, which kube-apiserver by default waits for until --request-timeout,
	// and then the listener, so that clients that call meanwhile are told to try again.
	o.Run.ShutdownWatchTerminationGracePeriod = watchTermination
	o.Run.ShutdownSendRetryAfter = true
	o.Authorization.Modes = []string{modes.ModeNode, modes.ModeRBAC}
	return o
}

// hasOwn reports whether the server has a data directory.
func (o *Options) hasOwn() bool { return o.DataDir != "" }

// Embedded reports whether the server runs its own etcd.
func (o *Options) Embedded() bool {
	return o.hasOwn() && len(o.Etcd.StorageConfig.Transport.ServerList) == 0
}

// AdminKubeconfig is the file with which kubectl is the cluster's administrator.
func (o *Options) AdminKubeconfig() string { return filepath.Join(o.DataDir, datadir.AdminKubeconfig) }
