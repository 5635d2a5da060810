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
	"gatehouse.dev/internal/negotiation"
	"gatehouse.dev/internal/quantity"
)

// NewFormer returns what a server serves besides Kubernetes' own kinds, given the names of the plugins that run.
// Plugins bring one along in their Descriptor's Server.Former. If it is nil, the server serves nothing else.
type NewFormer = func(running []string) Former

// Former serves kinds and versions that Kubernetes doesn't serve, such as those that it served formerly. Its
// kinds are of a scheme of their own.
type Former interface {
	// Kinds describes the kinds that Kubernetes removed.
	Kinds() FormerKinds
	// Definitions returns the models of these kinds by name.
	Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition
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

// FormerKinds are the kinds that Kubernetes removed.
type FormerKinds struct {
	// Scheme has them in their versions.
	Scheme *runtime.Scheme
	// Codecs convert them.
	Codecs serializer.CodecFactory
	// StorageCodec and StorageVersions say how they are stored.
	StorageCodec    runtime.Codec
	StorageVersions runtime.GroupVersioner
}

// JSONSerializer returns what encodes and decodes the kinds of a scheme that have no protobuf form.
func JSONSerializer(codecs serializer.CodecFactory) runtime.NegotiatedSerializer {
	return quantity.Serializer(negotiation.WithoutProtobuf(codecs))
}

// restOptions makes the storage of every kind that delegate describes; see storage.Backend.
func (c *config) restOptions(delegate generic.RESTOptionsGetter,
	cached func(schema.GroupResource) bool) generic.RESTOptionsGetter {
	return c.options.Former.RESTOptions(c.backend.RESTOptions(delegate, cached), c.ready)
}

// allocatorInformers returns the client configuration and the informers of the allocators of Services'
// IPs and ports, which also take back those that no Service has. They are the server's own, unless it
// hides objects: a hidden Service must not lose its IPs.
func (c *config) allocatorInformers(s *server.GenericAPIServer) (*restclient.Config, informers.SharedInformerFactory, error) {
	config, differs := c.options.Former.SeesAll(c.generic.LoopbackClientConfig)
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

// installFormer makes s serve the removed kinds that were chosen.
func (c *config) installFormer(s *server.GenericAPIServer, openAPI *common.OpenAPIV3Config) error {
	if len(c.former) == 0 {
		return nil
	}
	kinds, generic := c.options.Former.Kinds(), c.delegate()
	if err := c.simpleStorage(&generic, kinds.StorageCodec, kinds.StorageVersions); err != nil {
		return err
	}
	installed, err := c.options.Former.Install(s, &generic, openAPI, c.former)
	for resource, storage := range installed {
		c.patched[resource] = patchable{storage, kinds.Scheme}
	}
	return err
}

// requireResources returns an error if resources that are required are neither among Kubernetes'
// own nor among the former ones that are served. Plugins would wait for them forever, and so would
// all that the plugins decide about.
func requireResources(resources *serverstorage.ResourceConfig, former []schema.GroupVersionResource,
	required map[schema.GroupVersionResource][]string) error {
	var errs []error
	for resource, plugins := range required {
		if !slices.Contains(former, resource) && !resources.ResourceEnabled(resource) {
			errs = append(errs, fmt.Errorf("%s of %s are switched off, but an admission plugin that is enabled needs "+
				"them: %s", resource.Resource, resource.GroupVersion(), strings.Join(plugins, ", ")))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return utilerrors.NewAggregate(errs)
}

// yieldVersions switches off, in resources, Kubernetes' versions in which such resources are served,
// because a version comes from one scheme. It is an error if one of Kubernetes' own resources in such a
// version is switched on by its name.
func yieldVersions(resources *serverstorage.ResourceConfig, former []schema.GroupVersionResource) error {
	for _, ours := range former {
		for theirs, on := range resources.ExplicitResourceConfigs {
			if on && theirs.GroupVersion() == ours.GroupVersion() && !slices.Contains(former, theirs) {
				return fmt.Errorf("%s of %s can't be served where %s are; Kubernetes has them in another version, too",
					theirs.Resource, theirs.GroupVersion(), ours.Resource)
			}
		}
		resources.DisableVersions(ours.GroupVersion())
	}
	return nil
}

// none serves nothing.
type none struct{}

func (none) Kinds() FormerKinds {
	scheme := runtime.NewScheme()
	return FormerKinds{Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme)}
}

func (none) Definitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil }

func (none) Versions() []schema.GroupVersion { return nil }

func (none) Priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority { return nil }

func (none) Resources(cliflag.ConfigurationMap,
	map[schema.GroupVersionResource][]string) ([]schema.GroupVersionResource, error) {
	return nil, nil
}

func (none) Install(*server.GenericAPIServer, *server.Config, *common.OpenAPIV3Config,
	[]schema.GroupVersionResource) (map[schema.GroupVersionResource]rest.Storage, error) {
	return nil, nil
}

func (none) AddVersions(*server.APIGroupInfo, map[string]string,
	func(schema.GroupVersionResource) bool) *server.APIGroupInfo {
	return nil
}

func (none) RESTOptions(stores generic.RESTOptionsGetter, _ <-chan struct{}) generic.RESTOptionsGetter {
	return stores
}

func (none) Filter(handler http.Handler) http.Handler { return handler }

func (none) SeesAll(config *restclient.Config) (*restclient.Config, bool) { return config, false }
