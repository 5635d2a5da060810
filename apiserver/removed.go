package apiserver

import (
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/internal/quantity"
	"gatehouse.dev/internal/seconds"
	"gatehouse.dev/legacy/removed"
)

// removedResources returns the resources of removed kinds that are served: those that runtimeConfig
// (--runtime-config) switches on by name, and the required ones. It is an error if it switches off
// a required one.
//
// A version that Kubernetes still has, with other kinds, means those, as it does to kube-apiserver:
// to get ours it takes the resource's name.
func removedResources(runtimeConfig cliflag.ConfigurationMap,
	required map[schema.GroupVersionResource][]string) ([]schema.GroupVersionResource, error) {
	ours := cliflag.ConfigurationMap{}
	for key, value := range runtimeConfig {
		// The group policy is also Kubernetes' own, which answers for its other versions.
		versions, err := resourceconfig.ParseGroupVersions(cliflag.ConfigurationMap{key: value})
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(versions, func(gv schema.GroupVersion) bool {
			return removed.Scheme.IsVersionRegistered(gv) || !legacyscheme.Scheme.IsGroupRegistered(gv.Group)
		}) {
			ours[key] = value
		}
	}
	config, err := resourceconfig.MergeAPIResourceConfigs(serverstorage.NewResourceConfig(), ours, removed.Scheme)
	if err != nil {
		return nil, err
	}
	versionsOfKubernetes := defaultResources().GroupVersionConfigs
	var served []schema.GroupVersionResource
	for _, resource := range removed.Resources {
		_, isRequired := required[resource]
		on := config.ResourceEnabled(resource)
		if _, shared := versionsOfKubernetes[resource.GroupVersion()]; shared && !isRequired {
			_, byName := runtimeConfig[resource.GroupVersion().String()+"/"+resource.Resource]
			on = on && byName
		}
		switch {
		case on, isRequired && !named(runtimeConfig, resource.GroupVersion(), resource.Resource):
			served = append(served, resource)
		case isRequired:
			return nil, switchedOff(resource, required[resource])
		}
	}
	return served, nil
}

// requireResources is an error where some of Kubernetes' own resources are not served that are
// required. Plugins would wait for them forever, and so would all that the plugins decide about.
func requireResources(resources *serverstorage.ResourceConfig,
	required map[schema.GroupVersionResource][]string) error {
	var errs []error
	for resource, plugins := range required {
		if !slices.Contains(removed.Resources, resource) && !resources.ResourceEnabled(resource) {
			errs = append(errs, switchedOff(resource, plugins))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return utilerrors.NewAggregate(errs)
}

func switchedOff(resource schema.GroupVersionResource, plugins []string) error {
	return fmt.Errorf("%s of %s are switched off, but an admission plugin that is enabled needs them: %s",
		resource.Resource, resource.GroupVersion(), strings.Join(plugins, ", "))
}

// yieldVersions makes Kubernetes not serve, of resources, versions in which removed kinds are
// served: a version comes from one scheme. Where somebody asks for one of Kubernetes' resources
// there by its name, that is an error.
func yieldVersions(resources *serverstorage.ResourceConfig, served []schema.GroupVersionResource) error {
	for _, ours := range served {
		for theirs, on := range resources.ExplicitResourceConfigs {
			if on && theirs.GroupVersion() == ours.GroupVersion() && !slices.Contains(removed.Resources, theirs) {
				return fmt.Errorf("%s of %s can't be served where %s are; Kubernetes has them in another version, too",
					theirs.Resource, theirs.GroupVersion(), ours.Resource)
			}
		}
		resources.DisableVersions(ours.GroupVersion())
	}
	return nil
}

// installRemoved makes s serve resources of removed kinds.
//
// The library installs whole groups. Here it is single versions, since policy, which s serves too,
// would be two groups of the same name to it: kinds of another scheme, sent in another form. The
// document that describes a group to clients is the aggregator's in any case.
func (c *config) installRemoved(s *server.GenericAPIServer, openAPI *common.OpenAPIV3Config) error {
	if len(c.removed) == 0 {
		return nil
	}
	generic := c.delegate()
	if err := c.simpleStorage(&generic, removed.StorageCodec, removed.StorageVersions); err != nil {
		return err
	}
	versions := map[schema.GroupVersion]map[string]rest.Storage{}
	var models []string
	for _, resource := range c.removed {
		storage, err := removed.NewStorage(resource, generic.RESTOptionsGetter)
		if err != nil {
			return err
		}
		s.RegisterDestroyFunc(storage.Destroy)
		s.StorageReadinessHook.RegisterStorage(metav1.GroupVersionResource(resource), storage)
		if versions[resource.GroupVersion()] == nil {
			versions[resource.GroupVersion()] = map[string]rest.Storage{}
		}
		versions[resource.GroupVersion()][resource.Resource] = storage
		c.patched[resource] = patchable{storage, removed.Scheme}
		models = append(models, util.GetCanonicalTypeName(storage.New()))
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(openAPI, models...)
	if err != nil {
		return err
	}
	types, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		return err
	}
	for gv, storage := range versions {
		version := &endpoints.APIGroupVersion{
			Storage:                    storage,
			Root:                       server.APIGroupPrefix,
			GroupVersion:               gv,
			OptionsExternalVersion:     &schema.GroupVersion{Version: "v1"},
			Serializer:                 quantity.Serializer(removed.Serializer),
			ParameterCodec:             removed.ParameterCodec,
			Typer:                      removed.Scheme,
			Creater:                    removed.Scheme,
			Convertor:                  removed.Scheme,
			ConvertabilityChecker:      removed.Scheme,
			Defaulter:                  removed.Scheme,
			UnsafeConvertor:            runtime.UnsafeObjectConvertor(removed.Scheme),
			Namer:                      runtime.Namer(meta.NewAccessor()),
			TypeConverter:              types,
			EquivalentResourceRegistry: s.EquivalentResourceRegistry,
			Authorizer:                 s.Authorizer,
			Admit:                      c.generic.AdmissionControl,
			MinRequestTimeout:          seconds.Duration(int64(c.generic.MinRequestTimeout)),
			MaxRequestBodyBytes:        c.generic.MaxRequestBodyBytes,
		}
		resources, _, err := version.InstallREST(s.Handler.GoRestfulContainer)
		if err != nil {
			return fmt.Errorf("API version %s: %w", gv, err)
		}
		s.AggregatedDiscoveryGroupManager.AddGroupVersion(gv.Group, apidiscoveryv2.APIVersionDiscovery{
			Version: gv.Version, Resources: resources, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
		})
	}
	return nil
}
