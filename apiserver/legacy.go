// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kube-openapi/pkg/common"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"gatehouse.dev/apiserver/upstream"
)

// Legacy serves kinds and versions that Kubernetes no longer serves. Its kinds are of a scheme of
// their own.
type Legacy interface {
	// Kinds describes the kinds that Kubernetes removed.
	Kinds() LegacyKinds
	// Versions returns the versions of Kubernetes' own kinds that AddVersions may add.
	Versions() []schema.GroupVersion
	// Priorities returns what groupPriorities has to know of versions that Kubernetes' table lacks.
	Priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority

	// Resources returns the resources of removed kinds that are served: those that runtimeConfig
	// (--runtime-config) switches on by name, and those that are required and not switched off.
	Resources(runtimeConfig cliflag.ConfigurationMap,
		required map[schema.GroupVersionResource][]string) ([]schema.GroupVersionResource, error)
	// Install makes s serve resources, which Resources returned. config is that of s, but for
	// storage, which is in the form that Kinds describes. It returns what serves them.
	Install(s *server.GenericAPIServer, config *server.Config, openAPI *common.OpenAPIV3Config,
		resources []schema.GroupVersionResource) (map[schema.GroupVersionResource]rest.Storage, error)
	// AddVersions adds to a group of Kubernetes' own the versions that runtimeConfig names. It
	// returns another group that serves some of the group's kinds, or nil.
	AddVersions(group *server.APIGroupInfo, runtimeConfig map[string]string,
		enabled func(schema.GroupVersionResource) bool) *server.APIGroupInfo

	// RESTOptions wraps the storage of all kinds, to hide objects. ready is closed once the server
	// is ready.
	RESTOptions(stores generic.RESTOptionsGetter, ready <-chan struct{}) generic.RESTOptionsGetter
	// Filter is put around the handlers of all APIs, behind authorization.
	Filter(handler http.Handler) http.Handler
	// SeesAll returns the configuration of a client that sees hidden objects, and reports whether
	// that differs from what config sees.
	SeesAll(config *restclient.Config) (*restclient.Config, bool)
}

// LegacyKinds are the kinds that Kubernetes removed.
type LegacyKinds struct {
	// Scheme has them in their versions.
	Scheme *runtime.Scheme
	// Codecs convert them.
	Codecs serializer.CodecFactory
	// StorageCodec and StorageVersions say how they are stored.
	StorageCodec    runtime.Codec
	StorageVersions runtime.GroupVersioner
}

// restOptions makes the storage of every kind that delegate describes; see storage.Backend.
func (c *config) restOptions(delegate generic.RESTOptionsGetter,
	cached func(schema.GroupResource) bool) generic.RESTOptionsGetter {
	return c.options.Legacy.RESTOptions(c.backend.RESTOptions(delegate, cached), c.ready)
}

// allocatorInformers returns the client configuration and the informers of the allocators of Services'
// IPs and ports, which also take back those that no Service has. They are the server's own, unless it
// hides objects: a hidden Service must not lose its IPs.
func (c *config) allocatorInformers(s *server.GenericAPIServer) (*restclient.Config, informers.SharedInformerFactory, error) {
	config, differs := c.options.Legacy.SeesAll(c.generic.LoopbackClientConfig)
	if !differs {
		return config, waitingFactory{c.informers}, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, upstream.InformerResync,
		informers.WithTransform(withoutManagedFields))
	return config, waitingFactory{factory},
		s.AddPostStartHook("gatehouse/start-allocation-informers", func(hook server.PostStartHookContext) error {
			factory.StartWithContext(hook)
			return nil
		})
}

// installLegacy makes s serve the removed kinds that were chosen.
func (c *config) installLegacy(s *server.GenericAPIServer, openAPI *common.OpenAPIV3Config) error {
	if len(c.legacy) == 0 {
		return nil
	}
	kinds, generic := c.options.Legacy.Kinds(), c.delegate()
	if err := c.simpleStorage(&generic, kinds.StorageCodec, kinds.StorageVersions); err != nil {
		return err
	}
	installed, err := c.options.Legacy.Install(s, &generic, openAPI, c.legacy)
	for resource, storage := range installed {
		c.patched[resource] = patchable{storage, kinds.Scheme}
	}
	return err
}

// requireResources returns an error if resources that are required are neither among Kubernetes'
// own nor among the legacy ones that are served. Plugins would wait for them forever, and so would
// all that the plugins decide about.
func requireResources(resources *serverstorage.ResourceConfig, legacy []schema.GroupVersionResource,
	required map[schema.GroupVersionResource][]string) error {
	var errs []error
	for resource, plugins := range required {
		if !slices.Contains(legacy, resource) && !resources.ResourceEnabled(resource) {
			errs = append(errs, fmt.Errorf("%s of %s are switched off, but an admission plugin that is enabled needs "+
				"them: %s", resource.Resource, resource.GroupVersion(), strings.Join(plugins, ", ")))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return utilerrors.NewAggregate(errs)
}

// yieldVersions switches off, in resources, Kubernetes' versions in which legacy resources are served,
// because a version comes from one scheme. It is an error if one of Kubernetes' own resources in such a
// version is switched on by its name.
func yieldVersions(resources *serverstorage.ResourceConfig, legacy []schema.GroupVersionResource) error {
	for _, ours := range legacy {
		for theirs, on := range resources.ExplicitResourceConfigs {
			if on && theirs.GroupVersion() == ours.GroupVersion() && !slices.Contains(legacy, theirs) {
				return fmt.Errorf("%s of %s can't be served where %s are; Kubernetes has them in another version, too",
					theirs.Resource, theirs.GroupVersion(), ours.Resource)
			}
		}
		resources.DisableVersions(ours.GroupVersion())
	}
	return nil
}
