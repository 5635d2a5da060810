// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	extensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	extensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	extensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	aggregationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregatorserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
	"k8s.io/kubernetes/pkg/controlplane/controller/leaderelection"
	"k8s.io/kubernetes/pkg/controlplane/controller/legacytokentracking"
	"k8s.io/kubernetes/pkg/controlplane/controller/systemnamespaces"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	"k8s.io/kubernetes/pkg/routes"
	"k8s.io/kubernetes/pkg/serviceaccount"

	decisionsv1alpha1 "gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/apiserver/upstream"
)

// delegate is the shared configuration for one more server of the chain, which must not run the
// first one's hooks again.
func (c *config) delegate() server.Config {
	generic := *c.generic
	generic.PostStartHooks = map[string]server.PostStartHookConfigEntry{}
	generic.RESTOptionsGetter = nil
	return generic
}

// newExtensions makes the server of CustomResourceDefinitions and of the resources they define.
func (c *config) newExtensions(next server.DelegationTarget) (*extensionsserver.CustomResourceDefinitions, error) {
	generic := c.delegate()
	ownDefinitions(&generic, extensionsopenapi.GetOpenAPIDefinitions)
	codec := extensionsserver.Codecs.LegacyCodec(extensionsv1beta1.SchemeGroupVersion, extensionsv1.SchemeGroupVersion)
	versioner := runtime.NewMultiGroupVersioner(extensionsv1beta1.SchemeGroupVersion,
		schema.GroupKind{Group: extensionsv1beta1.GroupName})
	if err := c.simpleStorage(&generic, codec, versioner); err != nil {
		return nil, err
	}
	if err := c.options.APIEnablement.ApplyTo(&generic, extensionsserver.DefaultAPIResourceConfigSource(),
		extensionsserver.Scheme); err != nil {
		return nil, err
	}
	c.customResources = generic.MergedResourceConfig.ResourceEnabled(
		extensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	stores := extensionsoptions.NewCRDRESTOptionsGetter(*c.options.Etcd, generic.ResourceTransformers,
		generic.StorageObjectCountTracker)
	config := extensionsserver.Config{
		GenericConfig: &server.RecommendedConfig{Config: generic, SharedInformerFactory: c.informers},
		ExtraConfig: extensionsserver.ExtraConfig{
			CRDRESTOptionsGetter: c.restOptions(stores,
				func(schema.GroupResource) bool { return c.options.Etcd.EnableWatchCache }),
			MasterCount:         1,
			AuthResolverWrapper: c.conversionWebhooks(),
			ServiceResolver:     c.conversionServices(),
		},
	}
	s, err := config.Complete().New(next)
	if err != nil || !c.options.InProcess {
		return s, err
	}
	return s, s.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer().SetTransform(establishedLongAgo)
}

// establishedLongAgo makes a definition look older than it is. For two seconds upstream holds each
// create of a custom resource back for as long, in case another server doesn't know yet that the
// resource is served. A server in a process has no other.
func establishedLongAgo(obj any) (any, error) {
	if definition, ok := obj.(*extensionsv1.CustomResourceDefinition); ok {
		for i := range definition.Status.Conditions {
			if c := &definition.Status.Conditions[i]; c.Type == extensionsv1.Established {
				c.LastTransitionTime.Time = definition.CreationTimestamp.Add(-time.Minute)
			}
		}
	}
	return obj, nil
}

// conversionWebhooks returns how CustomResourceDefinitions' webhooks are reached.
func (c *config) conversionWebhooks() webhook.AuthenticationInfoResolverWrapper {
	if c.options.NoConversion == nil {
		return webhook.NewDefaultAuthenticationInfoResolverWrapper(c.proxyTransport, nil, c.dialled,
			c.generic.TracerProvider)
	}
	failing := &rest.Config{}
	failing.Wrap(func(http.RoundTripper) http.RoundTripper { return failingTransport{c.options.NoConversion} })
	return func(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc:        func(string) (*rest.Config, error) { return failing, nil },
			ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return failing, nil },
		}
	}
}

// conversionServices returns what finds the Services of conversion webhooks. It is asked before a call
// is made, so it must not fail in place of a call that isn't made.
func (c *config) conversionServices() webhook.ServiceResolver {
	if c.options.NoConversion == nil {
		return c.serviceResolver
	}
	return webhook.NewDefaultServiceResolver()
}

// failingTransport is a transport that fails with an error.
type failingTransport struct{ error }

// RoundTrip implements http.RoundTripper.
func (t failingTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, t.error }

// newKubernetes makes the server of Kubernetes' own kinds.
func (c *config) newKubernetes(next server.DelegationTarget) (*server.GenericAPIServer, error) {
	completed := c.generic.Complete(c.informers)
	completed.SkipOpenAPIInstallation = true // see installOpenAPI
	s, err := completed.New("kube-apiserver", next)
	if err != nil {
		return nil, err
	}
	if c.options.EnableLogsHandler {
		routes.Logs{}.Install(s.Handler.GoRestfulContainer)
	}
	metadata, err := serviceaccount.NewOpenIDMetadataProvider(c.options.Authentication.ServiceAccounts.Issuers[0],
		c.options.Authentication.ServiceAccounts.JWKSURI, c.generic.ExternalAddress, c.publicKeys)
	if err != nil {
		return nil, fmt.Errorf("--service-account-issuer: %w", err)
	}
	routes.NewOpenIDMetadataServer(metadata).Install(s.Handler.GoRestfulContainer)
	if err := c.installGroups(s); err != nil {
		return nil, err
	}
	if err := c.installFormer(s, completed.OpenAPIV3Config); err != nil {
		return nil, err
	}
	if err := c.installOpenAPI(s, completed.OpenAPIConfig, completed.OpenAPIV3Config); err != nil {
		return nil, err
	}
	return s, c.addHooks(s)
}

// addHooks adds what keeps a cluster's own objects true while the server runs.
func (c *config) addHooks(s *server.GenericAPIServer) error {
	// Clients look for the hook's name at /healthz. Kubernetes has none if it makes no roles.
	bootstrap := rbacrest.PostStartHookName
	if !c.rbac {
		bootstrap = "gatehouse/bootstrap"
	}
	hooks := []struct {
		name string
		run  server.PostStartHookFunc
	}{
		{bootstrap, c.bootstrapHook},
		{"scheduling/bootstrap-system-priority-classes", priorityClassHook},
		{"start-system-namespaces-controller", func(hook server.PostStartHookContext) error {
			go systemnamespaces.NewController(upstream.SystemNamespaces, c.client,
				c.informers.Core().V1().Namespaces()).Run(hook.Done())
			return nil
		}},
		{"start-kubernetes-service-cidr-controller", c.keepServiceCIDR},
		{"start-cluster-authentication-info-controller", c.publishAuthentication},
		{"start-legacy-token-tracking-controller", func(hook server.PostStartHookContext) error {
			go legacytokentracking.NewController(c.client).RunWithContext(hook)
			return nil
		}},
		{"storage-readiness", s.StorageReadinessHook.Hook},
	}
	for _, hook := range hooks {
		if err := s.AddPostStartHook(hook.name, hook.run); err != nil {
			return err
		}
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.APIServerIdentity) {
		if err := c.addIdentityHooks(s); err != nil {
			return err
		}
	}
	if err := c.addPeersHook(s); err != nil {
		return err
	}
	if err := c.addLeadershipHook(s); err != nil || c.options.InProcess {
		return err
	}
	return c.addServiceHook(s)
}

// addLeadershipHook makes the server decide which of the candidates leads, if coordinated leader
// election is on. Of several servers over one etcd, one decides.
func (c *config) addLeadershipHook(s *server.GenericAPIServer) error {
	if !utilfeature.DefaultFeatureGate.Enabled(features.CoordinatedLeaderElection) {
		return nil
	}
	leases, candidates := c.informers.Coordination().V1().Leases(),
		c.informers.Coordination().V1beta1().LeaseCandidates()
	leases.Informer() // before the informers start
	candidates.Informer()
	run := func() (func(context.Context, int), error) {
		controller, err := leaderelection.NewController(leases, candidates, c.client.CoordinationV1(),
			c.client.CoordinationV1beta1())
		collector := leaderelection.NewLeaseCandidateGC(c.client, controlplaneapiserver.LeaseCandidateGCPeriod,
			candidates)
		return func(ctx context.Context, workers int) {
			go controller.Run(ctx, workers)
			go collector.Run(ctx)
		}, err
	}
	return s.AddPostStartHook("start-kube-apiserver-coordinated-leader-election-controller",
		func(hook server.PostStartHookContext) error {
			go leaderelection.RunWithLeaderElection(hook, c.generic.LoopbackClientConfig, run, c.options.LeaderElection)
			return nil
		})
}

// publishAuthentication tells aggregated API servers, in the ConfigMap
// kube-system/extension-apiserver-authentication, which client certificates to trust.
func (c *config) publishAuthentication(hook server.PostStartHookContext) error {
	info := clusterauthenticationtrust.ClusterAuthenticationInfo{ClientCA: c.clientCA}
	if header := c.generic.Authentication.RequestHeaderConfig; header != nil {
		info.RequestHeaderCA = header.CAContentProvider
		info.RequestHeaderAllowedNames = header.AllowedClientNames
		info.RequestHeaderExtraHeaderPrefixes = header.ExtraHeaderPrefixes
		info.RequestHeaderGroupHeaders = header.GroupHeaders
		info.RequestHeaderUsernameHeaders = header.UsernameHeaders
		info.RequestHeaderUIDHeaders = header.UIDHeaders
	}
	controller := clusterauthenticationtrust.NewClusterAuthenticationTrustController(info, c.client)
	for _, ca := range []dynamiccertificates.CAContentProvider{info.ClientCA, info.RequestHeaderCA} {
		if ca == nil {
			continue
		}
		ca.AddListener(controller)
		if runner, ok := ca.(dynamiccertificates.ControllerRunner); ok {
			if err := runner.RunOnce(hook); err != nil {
				utilruntime.HandleErrorWithContext(hook, err, "Reading client certificate authorities")
			}
			go runner.Run(hook, 1)
		}
	}
	go controller.Run(hook, 1)
	return nil
}

// addServiceHook keeps the kubernetes Service, and makes the server one of its endpoints while it
// is ready.
func (c *config) addServiceHook(s *server.GenericAPIServer) error {
	reconciler, err := c.endpointReconciler()
	if err != nil {
		return err
	}
	if err := reconciler.ValidateIP(c.generic.PublicAddress); err != nil {
		return OptionsError{Err: fmt.Errorf("cannot use public IP %s with endpoint reconciler: %w",
			c.generic.PublicAddress, err)}
	}
	controller := kubernetesservice.New(kubernetesservice.Config{
		PublicIP:                  c.generic.PublicAddress,
		EndpointReconciler:        reconciler,
		EndpointInterval:          controlplane.DefaultEndpointReconcilerInterval,
		ServiceIP:                 c.options.apiServiceIP,
		ServicePort:               443,
		PublicServicePort:         c.securePort(),
		KubernetesServiceNodePort: c.options.KubernetesServiceNodePort,
	}, c.client, c.informers.Core().V1().Services())
	err = s.AddPostStartHook("bootstrap-controller", func(hook server.PostStartHookContext) error {
		controller.Start(hook.Done())
		return nil
	})
	if err != nil {
		return err
	}
	return s.AddPreShutdownHook("stop-kubernetes-service-controller", func() error {
		controller.Stop()
		return nil
	})
}

// endpointReconciler returns the reconciler of --endpoint-reconciler-type, or none if the server
// has no address to publish. By default several servers over one etcd know of each other by leases
// in it.
func (c *config) endpointReconciler() (reconcilers.EndpointReconciler, error) {
	if !c.options.publishEndpoints {
		return unpublishedReconciler{reconcilers.NewNoneEndpointReconciler()}, nil
	}
	endpoints, err := corev1client.NewForConfig(c.generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	slices, err := discoveryclient.NewForConfig(c.generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	adapter := reconcilers.NewEndpointsAdapter(endpoints, slices)
	if c.options.EndpointReconcilerType == string(reconcilers.MasterCountReconcilerType) {
		return reconcilers.NewMasterCountEndpointReconciler(c.options.MasterCount, adapter), nil
	}
	config, err := c.storageFactory.NewConfig(api.Resource("apiServerIPInfo"), &api.Endpoints{})
	if err != nil {
		return nil, err
	}
	leases, err := reconcilers.NewLeases(config, "/masterleases/", controlplane.DefaultEndpointReconcilerTTL)
	if err != nil {
		return nil, err
	}
	return reconcilers.NewLeaseEndpointReconciler(adapter, leases), nil
}

// unpublishedReconciler is for a server that is no endpoint. The controller takes the server for one
// that was killed, unless removing its endpoints fails.
type unpublishedReconciler struct{ reconcilers.EndpointReconciler }

// RemoveEndpoints implements reconcilers.EndpointReconciler.
func (unpublishedReconciler) RemoveEndpoints(service string, _ net.IP, _ []corev1.EndpointPort) error {
	return storage.NewKeyNotFoundError(service, 0)
}

// newAggregator makes the outermost server: it serves APIServices, passes on what other API servers
// serve, and merges everybody's discovery and OpenAPI.
func (c *config) newAggregator(kubernetes *server.GenericAPIServer,
	extensions *extensionsserver.CustomResourceDefinitions) (*aggregatorserver.APIAggregator, error) {
	generic := c.delegate()
	ownDefinitions(&generic, aggregatoropenapi.GetOpenAPIDefinitions)
	generic.SkipOpenAPIInstallation = true // the aggregator merges the others'
	if c.options.InProcess {
		generic.OpenAPIConfig = nil // making the documents takes long, and nobody reads them
	}
	if reportsStorageVersions() {
		// Writes of a kind wait until the version in which this server stores it is known.
		build := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(handler http.Handler, c *server.Config) http.Handler {
			return build(filters.WithStorageVersionPrecondition(handler, c.StorageVersionManager, c.Serializer), c)
		}
	}
	codec := aggregatorscheme.Codecs.LegacyCodec(aggregationv1.SchemeGroupVersion,
		aggregationv1beta1.SchemeGroupVersion)
	versioner := runtime.NewMultiGroupVersioner(aggregationv1.SchemeGroupVersion,
		schema.GroupKind{Group: aggregationv1beta1.GroupName})
	if err := c.simpleStorage(&generic, codec, versioner); err != nil {
		return nil, err
	}
	if err := c.options.APIEnablement.ApplyTo(&generic, aggregatorserver.DefaultAPIResourceConfigSource(),
		aggregatorscheme.Scheme); err != nil {
		return nil, err
	}
	config := &aggregatorserver.Config{
		GenericConfig: &server.RecommendedConfig{Config: generic, SharedInformerFactory: c.informers},
		ExtraConfig: aggregatorserver.ExtraConfig{
			ProxyClientCertFile:       c.options.ProxyClientCertFile,
			ProxyClientKeyFile:        c.options.ProxyClientKeyFile,
			ServiceResolver:           c.serviceResolver,
			ProxyTransport:            c.proxyTransport,
			RejectForwardingRedirects: c.options.AggregatorRejectForwardingRedirects,
		},
	}
	if c.options.InProcess {
		config.ExtraConfig.ProxyTransport = &http.Transport{DialContext: dialNobody}
		config.ExtraConfig.DisableRemoteAvailableConditionController = true
	}
	return controlplaneapiserver.CreateAggregatorServer(config.Complete(), kubernetes,
		extensions.Informers.Apiextensions().V1().CustomResourceDefinitions(), c.customResources, c.groupPriorities())
}

// dialNobody takes the place of connections to other API servers. A server for its own process
// makes none, whatever APIServices it has.
func dialNobody(_ context.Context, _, address string) (net.Conn, error) {
	return nil, fmt.Errorf("%s is not asked: this server makes no connections to aggregated API servers", address)
}

// groupPriorities returns upstream's priorities, and those of groups that upstream doesn't have. A
// group that is missing here would get no APIService.
func (c *config) groupPriorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	priorities := upstream.Priorities()
	priorities[decisionsv1alpha1.SchemeGroupVersion] = controlplaneapiserver.APIServicePriority{Group: 2000, Version: 9}
	maps.Copy(priorities, c.options.Former.Priorities())
	return priorities
}
