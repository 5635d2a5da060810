// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	apiserverinternalrest "k8s.io/kubernetes/pkg/registry/apiserverinternal/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	lifecyclerest "k8s.io/kubernetes/pkg/registry/lifecycle/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	svmrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"

	"gatehouse.dev/apiserver/upstream"
)

// A provider is an API group's storage as Kubernetes' registries provide it.
type provider = controlplaneapiserver.RESTStorageProvider

// withoutHook hides a group's post-start hook: package apiserver does that work in its own, faster
// way (see bootstrap).
type withoutHook struct{ provider }

// groups returns all of Kubernetes' own groups, in the order of discovery. If two groups have a
// resource of the same name, a client that gives no group gets the first.
func (c *config) groups(s *server.GenericAPIServer) ([]provider, error) {
	g := c.generic
	loopback, allocated, err := c.allocatorInformers(s)
	if err != nil {
		return nil, err
	}
	core, err := corerest.New(corerest.Config{
		GenericConfig: corerest.GenericConfig{
			StorageFactory:              c.storageFactory,
			EventTTL:                    c.options.EventTTL,
			LoopbackClientConfig:        loopback,
			ServiceAccountIssuer:        c.options.tokenIssuer,
			ExtendExpiration:            c.options.Authentication.ServiceAccounts.ExtendExpiration,
			ServiceAccountMaxExpiration: c.options.Authentication.ServiceAccounts.MaxExpiration,
			MaxExtendedExpiration:       c.options.Authentication.ServiceAccounts.MaxExtendedExpiration,
			APIAudiences:                g.Authentication.APIAudiences,
			Informers:                   allocated,
		},
		Proxy: corerest.ProxyConfig{Transport: c.proxyTransport, KubeletClientConfig: c.options.Kubelet},
		Services: corerest.ServicesConfig{
			ClusterIPRange:          c.options.serviceIPs[0],
			SecondaryClusterIPRange: c.options.serviceIPs[1],
			NodePortRange:           c.options.ServiceNodePortRange,
			IPRepairInterval:        upstream.ServiceRepairInterval,
		},
		EndpointSliceGetter: c.endpointSlices,
		Authorizer:          g.Authorization.Authorizer,
	}, g.Authorization.Authorizer)
	if err != nil {
		return nil, err
	}
	authorizer := g.Authorization.Authorizer
	return []provider{
		core,
		apiserverinternalrest.StorageProvider{},
		authenticationrest.RESTStorageProvider{Authenticator: g.Authentication.Authenticator,
			APIAudiences: g.Authentication.APIAudiences},
		authorizationrest.RESTStorageProvider{Authorizer: authorizer, RuleResolver: g.RuleResolver},
		autoscalingrest.RESTStorageProvider{},
		batchrest.RESTStorageProvider{},
		certificatesrest.RESTStorageProvider{Authorizer: authorizer},
		coordinationrest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		lifecyclerest.RESTStorageProvider{},
		networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		withoutHook{rbacrest.RESTStorageProvider{Authorizer: authorizer}},
		withoutHook{schedulingrest.RESTStorageProvider{}},
		storagerest.RESTStorageProvider{},
		svmrest.RESTStorageProvider{},
		flowcontrolrest.RESTStorageProvider{InformerFactory: c.informers},
		appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{Authorizer: authorizer, DiscoveryClient: c.client.Discovery()},
		eventsrest.RESTStorageProvider{TTL: c.options.EventTTL},
		resourcerest.RESTStorageProvider{NamespaceClient: c.client.CoreV1().Namespaces(), Authorizer: authorizer},
	}, nil
}

// installGroups makes s serve every enabled resource of Kubernetes' own groups.
func (c *config) installGroups(s *server.GenericAPIServer) error {
	groups, err := c.groups(s)
	if err != nil {
		return err
	}
	lifecycle, err := server.NewResourceExpirationEvaluatorFromOptions(server.ResourceExpirationEvaluatorOptions{
		CurrentVersion:                          s.EffectiveVersion.EmulationVersion(),
		Prerelease:                              s.EffectiveVersion.BinaryVersion().PreRelease(),
		EmulationForwardCompatible:              s.EmulationForwardCompatible,
		RuntimeConfigEmulationForwardCompatible: s.RuntimeConfigEmulationForwardCompatible,
	})
	if err != nil {
		return err
	}
	resources := c.storageFactory.APIResourceConfigSource
	var named []*server.APIGroupInfo
	for _, group := range groups {
		info, err := group.NewRESTStorage(resources, c.generic.RESTOptionsGetter)
		if err != nil {
			return fmt.Errorf("API group %q: %w", group.GroupName(), err)
		}
		// A kind that this version of Kubernetes no longer has, or doesn't have yet, isn't served
		// even if its group version is on.
		if err := lifecycle.RemoveUnavailableKinds(group.GroupName(), info.Scheme, info.VersionedResourcesStorageMap,
			resources); err != nil {
			return fmt.Errorf("API group %q: %w", group.GroupName(), err)
		}
		if group.GroupName() == corev1.GroupName {
			if err := c.pods.serve(info.VersionedResourcesStorageMap["v1"]["pods"]); err != nil {
				return err
			}
		}
		if other := c.options.Former.AddVersions(&info, c.options.APIEnablement.RuntimeConfig,
			resources.ResourceEnabled); other != nil {
			c.boundQuantities(other)
			named = append(named, other)
		}
		if len(info.VersionedResourcesStorageMap) == 0 {
			continue // all of it is switched off
		}
		info.PrioritizedVersions = slices.DeleteFunc(slices.Clone(info.PrioritizedVersions),
			func(gv schema.GroupVersion) bool {
				return len(info.VersionedResourcesStorageMap[gv.Version]) == 0
			})
		c.boundQuantities(&info)
		if hook, ok := group.(server.PostStartHookProvider); ok {
			name, run, err := hook.PostStartHook()
			if err != nil {
				return fmt.Errorf("API group %q: %w", group.GroupName(), err)
			}
			if err := s.AddPostStartHook(name, untilStopped(run)); err != nil {
				return err
			}
		}
		if group.GroupName() != "" {
			named = append(named, &info)
		} else if err := s.InstallLegacyAPIGroup(server.DefaultLegacyAPIPrefix, &info); err != nil {
			return fmt.Errorf("API group %q: %w", group.GroupName(), err)
		}
	}
	for _, e := range c.options.Extensions {
		named = append(named, e.Group(ExtensionEnv{c.options.serverName(), c.generic.Authorization.Authorizer, c.peers}))
	}
	if err := s.InstallAPIGroups(named...); err != nil {
		return err
	}
	for _, group := range named {
		group.StaticOpenAPISpec = nil // it describes all kinds, and nobody reads it any more
	}
	return nil
}

// untilStopped returns a hook that ends without an error when the server stops. The hook that repairs
// the allocations of Services waits a minute for the server to answer and then ends the process, even
// if that server was stopped and the process goes on.
func untilStopped(run server.PostStartHookFunc) server.PostStartHookFunc {
	return func(hook server.PostStartHookContext) error {
		done := make(chan error, 1)
		go func() { done <- run(hook) }()
		select {
		case err := <-done:
			return err
		case <-hook.Done():
			return nil
		}
	}
}
