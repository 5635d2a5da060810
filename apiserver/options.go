package apiserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneoptions "k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/serviceaccount"
	netutils "k8s.io/utils/net"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/apiserver/removed"
	"gatehouse.dev/apiserver/storage"
	"gatehouse.dev/apiserver/storage/uninitialized"
)

const (
	// DefaultDataDir is where a server keeps everything unless told otherwise.
	DefaultDataDir = "gatehouse-data"

	defaultIssuer            = "https://kubernetes.default.svc.cluster.local"
	defaultServiceCIDR       = "10.96.0.0/12"
	defaultEventTTL          = time.Hour
	watchTermination         = 5 * time.Second
	adminKubeconfig          = "admin.kubeconfig"
	pkiDir                   = "pki"
	etcdDir                  = "etcd"
	serviceAccountSigningKey = "service-account-signing-key-file"
)

// Options say how a server runs. NewOptions gives those of a server with no configuration; flags
// carry kube-apiserver's names and meanings.
type Options struct {
	// DataDir holds the embedded etcd's data, the server's own certificates and the administrator's
	// kubeconfig.
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
	Kubelet        kubeletclient.KubeletClientConfig

	// RequiredAPIs are resources that plugins need, with the plugins' names. Those of package
	// removed are served besides what --runtime-config switches on; what it switches off is an
	// error.
	RequiredAPIs map[schema.GroupVersionResource][]string

	// Extensions are what is served besides.
	Extensions []Extension

	// InProcess is that of a server for its own process, which asks by Handler: it listens nowhere.
	InProcess bool

	// HideUninitialized hides objects that wait for initializers, and makes their creators wait,
	// for InitializationTimeout at most; see package storage/uninitialized.
	HideUninitialized     bool
	InitializationTimeout time.Duration

	// EventTTL is how long events are kept.
	EventTTL time.Duration
	// ServiceClusterIPRanges is one CIDR, or two of different families separated by a comma.
	ServiceClusterIPRanges string
	// AllowPrivileged admits privileged containers, as every real cluster does.
	AllowPrivileged bool
	// ServiceAccountSigningKeyFile signs service account tokens; empty for a key of the server's
	// own.
	ServiceAccountSigningKeyFile string
	// ProxyClientCertFile and ProxyClientKeyFile prove to aggregated API servers who is calling.
	ProxyClientCertFile, ProxyClientKeyFile string
	// EnableAggregatorRouting makes aggregated APIs and conversion webhooks be reached at their
	// Services' endpoints. Otherwise they are at the cluster IPs, which something must route.
	EnableAggregatorRouting bool

	// The rest is derived by Complete.

	authority        *pki.Authority
	tokenIssuer      serviceaccount.TokenGenerator
	serviceIPs       [2]net.IPNet // the second is empty in a single-stack cluster
	apiServiceIP     net.IP
	publishEndpoints bool
}

// NewOptions returns the options of a server with no configuration: everything of its own, on
// 127.0.0.1:6443.
func NewOptions() *Options {
	o := &Options{
		DataDir: DefaultDataDir,
		Run:     genericoptions.NewServerRunOptions(),
		Etcd: genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig(kubeoptions.DefaultEtcdPathPrefix,
			nil)),
		SecureServing:  kubeoptions.NewSecureServingOptions().SecureServingOptions,
		Audit:          genericoptions.NewAuditOptions(),
		Traces:         genericoptions.NewTracingOptions(),
		Features:       genericoptions.NewFeatureOptions(),
		Authentication: kubeoptions.NewBuiltInAuthenticationOptions().WithAll(),
		Authorization:  kubeoptions.NewBuiltInAuthorizationOptions(),
		APIEnablement:  genericoptions.NewAPIEnablementOptions(),
		Kubelet: kubeletclient.KubeletClientConfig{
			Port:         10250,
			ReadOnlyPort: 10255,
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
		InitializationTimeout:  uninitialized.DefaultTimeout,
		ServiceClusterIPRanges: defaultServiceCIDR,
		AllowPrivileged:        true,
	}
	o.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	o.SecureServing.ServerCert.CertDirectory = ""
	// A stop ends the watches, which kube-apiserver by default waits for until --request-timeout,
	// and then the listener, so that who asks meanwhile is told to ask again.
	o.Run.ShutdownWatchTerminationGracePeriod = watchTermination
	o.Run.ShutdownSendRetryAfter = true
	o.Authorization.Modes = []string{modes.ModeNode, modes.ModeRBAC}
	o.Etcd.DefaultStorageMediaType = "application/vnd.kubernetes.protobuf"
	return o
}

// AddFlags adds a flag for every option to its group in fss.
func (o *Options) AddFlags(fss *cliflag.NamedFlagSets) {
	fs := fss.FlagSet("gatehouse")
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"The directory of everything the server keeps: etcd's data, its own certificates, admin.kubeconfig. One "+
			"process uses it at a time.")

	o.SecureServing.AddFlags(fss.FlagSet("secure serving"))
	o.Etcd.AddFlags(fss.FlagSet("etcd"))
	o.Authentication.AddFlags(fss.FlagSet("authentication"))
	fss.FlagSet("authentication").StringVar(&o.ServiceAccountSigningKeyFile, serviceAccountSigningKey,
		o.ServiceAccountSigningKeyFile,
		"File with the private key that signs service account tokens. A key of the server's own if empty.")
	o.Authorization.AddFlags(fss.FlagSet("authorization"))
	o.APIEnablement.AddFlags(fss.FlagSet("API enablement"))
	o.Audit.AddFlags(fss.FlagSet("auditing"))
	o.Traces.AddFlags(fss.FlagSet("traces"))
	o.Features.AddFlags(fss.FlagSet("features"))
	o.Run.AddUniversalFlags(fss.FlagSet("generic"))

	fs = fss.FlagSet("workloads")
	fs.BoolVar(&o.AllowPrivileged, "allow-privileged", o.AllowPrivileged, "If true, allow privileged containers.")
	fs.StringVar(&o.ServiceClusterIPRanges, "service-cluster-ip-range", o.ServiceClusterIPRanges,
		"A CIDR notation IP range from which to assign service cluster IPs; two, of different families, for a "+
			"dual-stack cluster.")
	fs.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "Amount of time to retain events.")

	fs = fss.FlagSet("kubelet")
	fs.StringSliceVar(&o.Kubelet.PreferredAddressTypes, "kubelet-preferred-address-types",
		o.Kubelet.PreferredAddressTypes,
		"List of the preferred NodeAddressTypes to use for kubelet connections.")
	fs.DurationVar(&o.Kubelet.HTTPTimeout, "kubelet-timeout", o.Kubelet.HTTPTimeout, "Timeout for kubelet operations.")
	fs.StringVar(&o.Kubelet.TLSClientConfig.CertFile, "kubelet-client-certificate", "",
		"Path to a client cert file for TLS.")
	fs.StringVar(&o.Kubelet.TLSClientConfig.KeyFile, "kubelet-client-key", "", "Path to a client key file for TLS.")
	fs.StringVar(&o.Kubelet.TLSClientConfig.CAFile, "kubelet-certificate-authority", "",
		"Path to a cert file for the certificate authority.")

	fs = fss.FlagSet("aggregation")
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"Client certificate with which requests are passed on to aggregated API servers.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile,
		"Private key of --proxy-client-cert-file.")
	fs.BoolVar(&o.EnableAggregatorRouting, "enable-aggregator-routing", o.EnableAggregatorRouting,
		"Turns on aggregator routing requests to endpoints IP rather than cluster IP.")
}

// Embedded tells whether the server runs its own etcd.
func (o *Options) Embedded() bool { return len(o.Etcd.StorageConfig.Transport.ServerList) == 0 }

// AdminKubeconfig is the file with which kubectl is the cluster's administrator.
func (o *Options) AdminKubeconfig() string { return filepath.Join(o.DataDir, adminKubeconfig) }

// complete derives what was not given and makes the files a server of its own needs.
func (o *Options) complete() error {
	if err := o.completeAddresses(); err != nil {
		return err
	}
	if err := o.Run.Complete(); err != nil {
		return err
	}
	if err := o.completeCertificates(); err != nil {
		return fmt.Errorf("certificates in data directory %s: %w", o.DataDir, err)
	}
	if err := o.completeServiceAccounts(); err != nil {
		return err
	}
	o.Authorization.Complete()
	o.Authentication.ApplyAuthorization(o.Authorization)

	// A list followed by a watch must find the watch's start still in the cache.
	storage := &o.Etcd.StorageConfig
	storage.EventsHistoryWindow = max(storage.EventsHistoryWindow, o.Run.RequestTimeout+15*time.Second)
	if o.Etcd.EnableWatchCache {
		sizes := kubeapiserver.DefaultWatchCacheSizes()
		given, err := genericoptions.ParseWatchCacheSizes(o.Etcd.WatchCacheSizes)
		if err != nil {
			return fmt.Errorf("--watch-cache-sizes: %w", err)
		}
		for resource, size := range given {
			sizes[resource] = size
		}
		if o.Etcd.WatchCacheSizes, err = genericoptions.WriteWatchCacheSizes(sizes); err != nil {
			return fmt.Errorf("--watch-cache-sizes: %w", err)
		}
	}
	if err := o.completeRuntimeConfig(); err != nil {
		return err
	}
	return o.validate()
}

// completeRuntimeConfig takes what older releases wanted to be told.
func (o *Options) completeRuntimeConfig() error {
	// These kinds are of a configuration file; no server ever served them.
	delete(o.APIEnablement.RuntimeConfig, "eventratelimit.admission.k8s.io/v1alpha1")
	for _, resource := range []string{"podsecuritypolicy", "podsecuritypolicies"} {
		key := "extensions/v1beta1/" + resource
		if value, ok := o.APIEnablement.RuntimeConfig[key]; ok && value != "false" {
			return fmt.Errorf("--runtime-config: %s: PodSecurityPolicies are served in policy/v1beta1: switch on "+
				"policy/v1beta1/podsecuritypolicies", key)
		}
	}
	// kube-apiserver takes "v1" and "api/v1" for the legacy group, whose group name is empty.
	for key, value := range o.APIEnablement.RuntimeConfig {
		trimmed := strings.TrimPrefix(key, "api/")
		if trimmed == "v1" || strings.HasPrefix(trimmed, "v1/") {
			delete(o.APIEnablement.RuntimeConfig, key)
			o.APIEnablement.RuntimeConfig["/v1"] = value
		}
	}
	return nil
}

func (o *Options) completeAddresses() error {
	// Where the server is reached only from its own machine, no other address would be true, and
	// there is none to publish as the kubernetes Service's endpoint: Kubernetes refuses loopback
	// addresses there.
	o.publishEndpoints = len(o.Run.AdvertiseAddress) != 0 || !o.SecureServing.BindAddress.IsLoopback()
	if !o.publishEndpoints {
		o.Run.AdvertiseAddress = o.SecureServing.BindAddress
	}
	if err := o.Run.DefaultAdvertiseAddress(o.SecureServing); err != nil {
		return err
	}
	if o.Run.AdvertiseAddress.IsLoopback() {
		o.publishEndpoints = false
	}
	if o.Run.ExternalHost == "" {
		o.Run.ExternalHost = o.Run.AdvertiseAddress.String()
	}
	ranges := strings.Split(o.ServiceClusterIPRanges, ",")
	if len(ranges) > 2 {
		return errors.New("--service-cluster-ip-range must not contain more than two entries")
	}
	for i, cidr := range ranges {
		_, parsed, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			return fmt.Errorf("--service-cluster-ip-range %q is not a valid CIDR: %w", cidr, err)
		}
		r, firstIP, err := controlplaneoptions.ServiceIPRange(*parsed)
		if err != nil {
			return fmt.Errorf("--service-cluster-ip-range %q: %w", cidr, err)
		}
		if o.serviceIPs[i] = r; i == 0 {
			o.apiServiceIP = firstIP
		} else if netutils.IsIPv6CIDR(&o.serviceIPs[0]) == netutils.IsIPv6CIDR(&r) {
			return fmt.Errorf("--service-cluster-ip-range %q: the two ranges must be of different IP families",
				o.ServiceClusterIPRanges)
		}
	}
	return nil
}

func (o *Options) pkiDir() string {
	if dir := o.SecureServing.ServerCert.CertDirectory; dir != "" {
		return dir
	}
	return filepath.Join(o.DataDir, pkiDir)
}

func (o *Options) completeCertificates() (err error) {
	if o.authority, err = pki.LoadAuthority(o.pkiDir()); err != nil {
		return err
	}
	files := &o.SecureServing.ServerCert.CertKey
	switch {
	case files.CertFile != "" && files.KeyFile != "":
		return nil
	case files.CertFile != "" || files.KeyFile != "":
		return errors.New("--tls-cert-file and --tls-private-key-file must be specified together")
	}
	hosts := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		o.apiServiceIP.String(), o.Run.AdvertiseAddress.String(), o.Run.ExternalHost,
	}
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
	files.CertFile = filepath.Join(o.pkiDir(), "apiserver.crt")
	files.KeyFile = filepath.Join(o.pkiDir(), "apiserver.key")
	if err := pki.WriteFile(files.KeyFile, keyPEM); err != nil {
		return err
	}
	return pki.WriteFile(files.CertFile, certPEM)
}

func (o *Options) completeServiceAccounts() error {
	accounts := o.Authentication.ServiceAccounts
	if len(accounts.Issuers) == 0 {
		accounts.Issuers = []string{defaultIssuer}
	}
	if o.ServiceAccountSigningKeyFile == "" {
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
	if len(accounts.KeyFiles) == 0 {
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
	if lifetime := accounts.MaxExpiration; lifetime != 0 &&
		(lifetime < time.Hour || lifetime > time.Duration(1<<32)*time.Second) {
		return errors.New("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	return nil
}

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
		aggregatorscheme.Scheme, removed.Scheme) {
		errs = append(errs, fmt.Errorf("--runtime-config: %w", err))
	}
	if file := o.Authentication.TokenFile; file != nil && file.TokenFile != "" {
		if _, err := tokenfile.NewCSV(file.TokenFile); err != nil {
			errs = append(errs, fmt.Errorf("--token-auth-file %s: %w", file.TokenFile, err))
		}
	}
	if (o.ProxyClientCertFile == "") != (o.ProxyClientKeyFile == "") {
		errs = append(errs,
			errors.New("--proxy-client-cert-file and --proxy-client-key-file must be specified together"))
	}
	return utilerrors.NewAggregate(errs)
}

func (o *Options) etcdDir() string { return filepath.Join(o.DataDir, etcdDir) }

// servingCA is what a client must trust to trust the serving certificate: the server's own
// authority, or the given certificate file itself.
func (o *Options) servingCA() ([]byte, error) {
	if filepath.Dir(o.SecureServing.ServerCert.CertKey.CertFile) == o.pkiDir() {
		return o.authority.CertPEM(), nil
	}
	return os.ReadFile(o.SecureServing.ServerCert.CertKey.CertFile)
}
