// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/sets"
	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/component-base/tracing"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	"k8s.io/kubernetes/pkg/serviceaccount"

	apisopenapi "gatehouse.dev/apis/openapi"
	"gatehouse.dev/apiserver/storage"
	"gatehouse.dev/apiserver/upstream"
	"gatehouse.dev/internal/peers"
	"gatehouse.dev/internal/quota"
)

// config holds what the three servers of the delegation chain (custom resources, Kubernetes' own
// kinds, aggregated APIs) are made from.
type config struct {
	options *Options
	backend *storage.Backend
	ready   <-chan struct{} // closed once the server is ready

	generic         *server.Config
	storageFactory  *serverstorage.DefaultStorageFactory
	client          *kubernetes.Clientset
	informers       informers.SharedInformerFactory
	pods            *podSource // of the informers' pods
	clientCA        dynamiccertificates.CAContentProvider
	publicKeys      serviceaccount.PublicKeysGetter
	endpointSlices  proxy.EndpointSliceGetter // of the informers, for connections to Services
	serviceResolver webhook.ServiceResolver
	proxyTransport  *http.Transport
	loopback        *loopback                                 // how the server calls itself
	dialled         *rest.Config                              // how it is called over TLS, if it listens
	peers           *peers.Peers                              // nil if there can't be any
	customResources bool                                      // whether CustomResourceDefinitions are served
	rbac            bool                                      // whether roles and bindings count
	former          []schema.GroupVersionResource             // of Options.Former, served
	patched         map[schema.GroupVersionResource]patchable // the kinds whose patches are searched for quantities
	// admitted, if not nil, is put around every request that may be admitted.
	admitted func(http.Handler) http.Handler
}

// newConfig makes the configuration that the servers share, except admission, which is built from
// it. ctx bounds what it starts. tracer records the spans of traces.
func newConfig(ctx context.Context, o *Options, tracer tracing.TracerProvider, backend *storage.Backend,
	ready <-chan struct{}) (*config, error) {
	capabilities.Setup(o.AllowPrivileged, o.MaxConnectionBytesPerSec)
	metricsfeatures.ApplyFeatureGates(utilfeature.DefaultFeatureGate)
	o.Metrics.Apply()
	serviceaccount.RegisterMetrics()

	codecs := legacyscheme.Codecs
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		codecs = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	}
	c := &config{options: o, backend: backend, ready: ready, generic: server.NewConfig(codecs),
		pods: newPodSource(), patched: map[schema.GroupVersionResource]patchable{}}
	g := c.generic
	g.TracerProvider = tracer
	resources := controlplane.DefaultAPIResourceConfigSource()
	resources.DisableVersions(o.Former.Versions()...) // known, but off
	g.MergedResourceConfig = resources
	if err := o.Run.ApplyTo(g); err != nil {
		return nil, err
	}
	g.Flagz = o.Flagz
	g.EffectiveVersion = effectiveVersion{g.EffectiveVersion, o.ReportedVersion}
	if err := c.applyServing(); err != nil {
		return nil, err
	}
	var err error
	if c.client, err = kubernetes.NewForConfig(g.LoopbackClientConfig); err != nil {
		return nil, err
	}
	if err := c.applyPeers(); err != nil {
		return nil, err
	}
	c.informers = informers.NewSharedInformerFactoryWithOptions(c.client, upstream.InformerResync,
		informers.WithTransform(withoutManagedFields))
	if err := c.pods.feed(c.informers, o.WholePods); err != nil {
		return nil, err
	}
	if err := o.Features.ApplyTo(g, c.client, c.informers); err != nil {
		return nil, err
	}
	if err := o.APIEnablement.ApplyTo(g, resources, legacyscheme.Scheme); err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	if c.former, err = o.Former.Resources(o.APIEnablement.RuntimeConfig, o.RequiredAPIs); err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	if err := requireResources(resources, c.former, o.RequiredAPIs); err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	if err := checkStorageVersions(resources); err != nil {
		return nil, err
	}
	if err := yieldVersions(resources, c.former); err != nil {
		return nil, fmt.Errorf("--runtime-config: %w", err)
	}
	c.applyOpenAPI()
	g.LongRunningFunc = filters.BasicLongRunningRequestCheck(
		sets.NewString(upstream.LongRunningVerbs...),
		sets.NewString(upstream.LongRunningSubresources...),
	)
	if err := c.applyStorage(); err != nil {
		return nil, err
	}
	if err := c.applyAuthentication(ctx); err != nil {
		return nil, err
	}
	if err := c.applyAuthorization(ctx); err != nil {
		return nil, err
	}
	if err := o.Audit.ApplyTo(g); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	g.BuildHandlerChainFunc = func(handler http.Handler, generic *server.Config) http.Handler {
		handler = server.DefaultBuildHandlerChain(c.writes(handler), generic)
		if handler = o.withOuterFilters(handler); c.peers != nil {
			handler = c.peers.Filter(handler)
		}
		return o.SecureServing.Listener.(*listener).counted(handler)
	}
	g.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")

	c.proxyTransport = controlplaneapiserver.CreateProxyTransport()
	return c, c.applyServiceResolver()
}

// writes wraps the handlers of all APIs, behind authorization.
func (c *config) writes(handler http.Handler) http.Handler {
	handler = c.options.Former.Filter(handler)
	if c.admitted != nil {
		handler = c.admitted(handler)
	}
	return c.options.withFilters(withTimeToAnswer(c.withQuotaHolder(c.withBoundedQuantities(handler))))
}

// applyServing takes the listener, and lets the server call itself without a connection. For what
// comes to the server's own address it has a certificate of its own authority.
func (c *config) applyServing() error {
	g := c.generic
	if err := c.options.SecureServing.ApplyTo(&g.SecureServing); err != nil {
		files := c.options.SecureServing.ServerCert.CertKey
		return fmt.Errorf("serving certificate %s with key %s: %w", files.CertFile, files.KeyFile, err)
	}
	certPEM, keyPEM, err := c.options.authority.Serving("loopback", []string{server.LoopbackClientServerNameOverride})
	if err != nil {
		return err
	}
	cert, err := dynamiccertificates.NewStaticSNICertKeyContent("loopback", certPEM, keyPEM,
		server.LoopbackClientServerNameOverride)
	if err != nil {
		return err
	}
	g.SecureServing.SNICerts = append([]dynamiccertificates.SNICertKeyContentProvider{cert},
		g.SecureServing.SNICerts...)
	g.LoopbackClientConfig,
		err = g.SecureServing.NewLoopbackClientConfig(uuid.NewString(), c.options.authority.CertPEM())
	if err != nil {
		return err
	}
	g.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	g.LoopbackClientConfig.DisableCompression = true
	if c.options.Tracing() {
		g.LoopbackClientConfig.Wrap(tracing.WrapperFor(g.TracerProvider))
	}
	c.dialled, c.loopback = rest.CopyConfig(g.LoopbackClientConfig), newLoopback()
	g.LoopbackClientConfig.TLSClientConfig, g.LoopbackClientConfig.Transport = rest.TLSClientConfig{}, c.loopback
	if c.options.InProcess {
		c.dialled = g.LoopbackClientConfig
	}
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return err
	}
	valid := healthz.NamedCheck("loopback-serving-certificate", func(*http.Request) error {
		if time.Now().After(certs[0].NotAfter) {
			return genericoptions.LoopbackCertificateExpiredError{}
		}
		return nil
	})
	g.AddHealthzChecks(valid)
	g.AddLivezChecks(valid)
	return nil
}

func (c *config) applyOpenAPI() {
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(
		func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			all := generatedopenapi.GetOpenAPIDefinitions(ref)
			maps.Copy(all, apisopenapi.Definitions(ref))
			maps.Copy(all, c.options.Former.Definitions(ref))
			return all
		})
	namer := openapinamer.NewDefinitionNamer(append(c.options.extensionSchemes(), legacyscheme.Scheme,
		apiextensionsapiserver.Scheme, aggregatorscheme.Scheme, c.options.Former.Kinds().Scheme)...)
	c.generic.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, namer)
	c.generic.OpenAPIConfig.Info.Title = "Kubernetes"
	c.generic.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, namer)
	c.generic.OpenAPIV3Config.Info.Title = "Kubernetes"
}

func (c *config) applyStorage() error {
	o, g := c.options, c.generic
	factoryConfig := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(g.EffectiveVersion)
	factoryConfig.APIResourceConfig = g.MergedResourceConfig
	factoryConfig.DefaultResourceEncoding.SetEffectiveVersion(g.EffectiveVersion)
	var err error
	if c.storageFactory, err = factoryConfig.Complete(o.Etcd).New(); err != nil {
		return err
	}
	c.storageFactory.StorageConfig.StorageObjectCountTracker = g.StorageObjectCountTracker

	// The library's health checks dial etcd once more each; the backend's use its client. Only the
	// health of encryption's key services can't be had apart from them.
	etcdOptions := *o.Etcd
	etcdOptions.SkipHealthEndpoints = o.Etcd.EncryptionProviderConfigFilepath == ""
	if err := etcdOptions.ApplyWithStorageFactoryTo(c.storageFactory, g); err != nil {
		return err
	}
	if etcdOptions.SkipHealthEndpoints {
		others, err := otherClusters(o.Etcd)
		if err != nil {
			return err
		}
		if err := c.backend.AddChecks(g, o.Etcd.StorageConfig, others); err != nil {
			return err
		}
	}
	uncached, err := uncachedResources(o.Etcd)
	if err != nil {
		return err
	}
	g.RESTOptionsGetter = c.restOptions(g.RESTOptionsGetter, func(resource schema.GroupResource) bool {
		return o.Etcd.EnableWatchCache && !uncached.Has(resource)
	})
	return nil
}

// otherClusters returns the servers of each etcd cluster that --etcd-servers-overrides names, once
// each.
func otherClusters(o *genericoptions.EtcdOptions) (others [][]string, err error) {
	overrides, err := genericoptions.ParseEtcdServersOverrides(o.EtcdServersOverrides)
	if err != nil {
		return nil, err
	}
	seen := sets.New[string]()
	for _, override := range overrides {
		if key := strings.Join(slices.Sorted(slices.Values(override.Servers)), ";"); !seen.Has(key) {
			seen.Insert(key)
			others = append(others, override.Servers)
		}
	}
	return others, nil
}

func uncachedResources(o *genericoptions.EtcdOptions) (sets.Set[schema.GroupResource], error) {
	sizes, err := genericoptions.ParseWatchCacheSizes(o.WatchCacheSizes)
	if err != nil {
		return nil, fmt.Errorf("--watch-cache-sizes: %w", err)
	}
	uncached := sets.New[schema.GroupResource]()
	for resource, size := range sizes {
		if size == 0 {
			uncached.Insert(resource)
		}
	}
	return uncached, nil
}

// simpleStorage replaces generic's storage by one for a server with a scheme of its own.
func (c *config) simpleStorage(generic *server.Config, codec runtime.Codec, versioner runtime.GroupVersioner) error {
	etcdOptions := *c.options.Etcd
	etcdOptions.StorageConfig.Codec = codec
	etcdOptions.StorageConfig.EncodeVersioner = versioner
	etcdOptions.SkipHealthEndpoints = true // the shared configuration has them
	if err := etcdOptions.ApplyTo(generic); err != nil {
		return err
	}
	generic.RESTOptionsGetter = c.restOptions(generic.RESTOptionsGetter, func(schema.GroupResource) bool {
		return c.options.Etcd.EnableWatchCache
	})
	return nil
}

// applyAuthentication trusts the authorities of the options and, if the server keeps one, its own: the
// administrator's certificate must work whatever --client-ca-file is. Both are one authority to the
// library, so that a certificate of neither is refused rather than anonymous.
func (c *config) applyAuthentication(ctx context.Context) error {
	o, g := c.options, c.generic
	authentication := *o.Authentication
	given, err := authentication.ClientCert.GetClientCAContentProvider()
	if err != nil {
		return err
	}
	c.clientCA = given
	if o.hasOwn() {
		own, err := dynamiccertificates.NewStaticCAContent("gatehouse-ca", o.authority.CertPEM())
		if err != nil {
			return err
		}
		if c.clientCA = own; given != nil {
			c.clientCA = dynamiccertificates.NewUnionCAContentProvider(own, given)
		}
	}
	authentication.ClientCert = &genericoptions.ClientCertAuthenticationOptions{CAContentProvider: c.clientCA}
	accounts := *authentication.ServiceAccounts
	accounts.OptionalTokenGetter = c.tokenGetter
	authentication.ServiceAccounts = &accounts
	if err := authentication.ApplyTo(ctx, &g.Authentication, g.SecureServing, nil, g.OpenAPIConfig, g.OpenAPIV3Config,
		c.client, c.informers, g.APIServerID); err != nil {
		return err
	}
	if g.Authentication.Authenticator != nil {
		for _, e := range o.Extensions {
			g.Authentication.Authenticator = e.Authenticator(g.Authentication.Authenticator)
		}
	}
	if err := c.admitPeers(); err != nil {
		return err
	}
	if keys := o.Authentication.ServiceAccounts.ExternalPublicKeysGetter; keys != nil {
		c.publicKeys = keys
		return nil
	}
	c.publicKeys, err = publicKeys(o.Authentication.ServiceAccounts.KeyFiles)
	return err
}

// publicKeys returns the keys that verify service account tokens.
func publicKeys(files []string) (serviceaccount.PublicKeysGetter, error) {
	var all []any
	for _, file := range files {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file %s: %w", file, err)
		}
		all = append(all, keys...)
	}
	return serviceaccount.StaticPublicKeysGetter(all)
}

func (c *config) applyAuthorization(ctx context.Context) error {
	authz, err := c.options.Authorization.ToAuthorizationConfig(c.informers)
	if err != nil {
		return fmt.Errorf("invalid authorization config: %w", err)
	}
	c.rbac = slices.ContainsFunc(authz.AuthorizationConfiguration.Authorizers,
		func(a apiserverconfig.AuthorizerConfiguration) bool { return string(a.Type) == modes.ModeRBAC })
	c.generic.Authorization.Authorizer, c.generic.RuleResolver, err = authz.New(ctx, c.generic.APIServerID)
	if err != nil {
		return fmt.Errorf("invalid authorization config: %w", err)
	}
	return nil
}

// applyServiceResolver finds Services for aggregated APIs and conversion webhooks by their cluster IPs
// or external names, or by their endpoints if --enable-aggregator-routing is set. The kubernetes Service
// is in this process.
func (c *config) applyServiceResolver() error {
	loopback, err := url.Parse(c.generic.LoopbackClientConfig.Host)
	if err != nil {
		return err
	}
	c.endpointSlices, err = proxy.NewEndpointSliceIndexerGetter(c.informers.Discovery().V1().EndpointSlices())
	if err != nil {
		return err
	}
	services := c.informers.Core().V1().Services().Lister()
	resolver := aggregatorapiserver.NewClusterIPServiceResolver(services)
	if c.options.EnableAggregatorRouting {
		resolver = aggregatorapiserver.NewEndpointServiceResolver(services, c.endpointSlices)
	}
	c.serviceResolver = aggregatorapiserver.NewLoopbackServiceResolver(resolver, loopback)
	return nil
}

// withoutManagedFields removes the managed fields, which nothing reads from informers. That halves
// what they keep.
func withoutManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// withQuotaHolder gives every write the place in which the ResourceQuota plugin leaves what storage
// is to charge, if it counts quotas.
func (c *config) withQuotaHolder(next http.Handler) http.Handler {
	if !c.options.CountQuotas {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			r = r.WithContext(quota.WithHolder(r.Context()))
		}
		next.ServeHTTP(w, r)
	})
}
