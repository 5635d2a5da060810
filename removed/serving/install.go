// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"slices"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"k8s.io/kubernetes/pkg/controlplane"

	"gatehouse.dev/removed/serving/kinds"
)

// Resources implements apiserver.Former.
//
// A version that Kubernetes still has, with other kinds, means those, as it does to kube-apiserver:
// to get ours it takes the resource's name.
func (API) Resources(runtimeConfig cliflag.ConfigurationMap,
	required map[schema.GroupVersionResource][]string) ([]schema.GroupVersionResource, error) {
	for _, resource := range []string{"podsecuritypolicy", "podsecuritypolicies"} {
		key := "extensions/v1beta1/" + resource
		if value, ok := runtimeConfig[key]; ok && value != "false" {
			return nil, fmt.Errorf("%s: PodSecurityPolicies are served in policy/v1beta1: switch on "+
				"policy/v1beta1/podsecuritypolicies", key)
		}
	}
	ours := cliflag.ConfigurationMap{}
	for key, value := range runtimeConfig {
		// The group policy is also Kubernetes' own, which answers for its other versions.
		versions, err := resourceconfig.ParseGroupVersions(cliflag.ConfigurationMap{key: value})
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(versions, func(gv schema.GroupVersion) bool {
			return kinds.Scheme.IsVersionRegistered(gv) || !legacyscheme.Scheme.IsGroupRegistered(gv.Group)
		}) {
			ours[key] = value
		}
	}
	config, err := resourceconfig.MergeAPIResourceConfigs(serverstorage.NewResourceConfig(), ours, kinds.Scheme)
	if err != nil {
		return nil, err
	}
	versionsOfKubernetes := controlplane.DefaultAPIResourceConfigSource().GroupVersionConfigs
	var served []schema.GroupVersionResource
	for _, resource := range kinds.Resources {
		_, isRequired := required[resource]
		on := config.ResourceEnabled(resource)
		if _, shared := versionsOfKubernetes[resource.GroupVersion()]; shared && !isRequired {
			_, byName := runtimeConfig[resource.GroupVersion().String()+"/"+resource.Resource]
			on = on && byName
		}
		if on || isRequired && !isNamed(runtimeConfig, resource.GroupVersion(), resource.Resource) {
			served = append(served, resource)
		}
	}
	return served, nil
}

// Install implements apiserver.Former.
//
// The library installs whole groups. Here it is single versions, since policy, which s serves too,
// would be two groups of the same name to it: kinds of another scheme, sent in another form. The
// document that describes a group to clients is the aggregator's in any case.
func (API) Install(s *server.GenericAPIServer, config *server.Config, openAPI *common.OpenAPIV3Config,
	resources []schema.GroupVersionResource) (map[schema.GroupVersionResource]rest.Storage, error) {
	installed := map[schema.GroupVersionResource]rest.Storage{}
	versions := map[schema.GroupVersion]map[string]rest.Storage{}
	var models []string
	for _, resource := range resources {
		storage, err := kinds.NewStorage(resource, config.RESTOptionsGetter)
		if err != nil {
			return nil, err
		}
		s.RegisterDestroyFunc(storage.Destroy)
		s.StorageReadinessHook.RegisterStorage(metav1.GroupVersionResource(resource), storage)
		if versions[resource.GroupVersion()] == nil {
			versions[resource.GroupVersion()] = map[string]rest.Storage{}
		}
		versions[resource.GroupVersion()][resource.Resource] = storage
		installed[resource] = storage
		models = append(models, util.GetCanonicalTypeName(storage.New()))
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(openAPI, models...)
	if err != nil {
		return nil, err
	}
	types, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		return nil, err
	}
	for gv, storage := range versions {
		version := &endpoints.APIGroupVersion{
			Storage:                    storage,
			Root:                       server.APIGroupPrefix,
			GroupVersion:               gv,
			OptionsExternalVersion:     &schema.GroupVersion{Version: "v1"},
			Serializer:                 kinds.Serializer,
			ParameterCodec:             kinds.ParameterCodec,
			Typer:                      kinds.Scheme,
			Creater:                    kinds.Scheme,
			Convertor:                  kinds.Scheme,
			ConvertabilityChecker:      kinds.Scheme,
			Defaulter:                  kinds.Scheme,
			UnsafeConvertor:            runtime.UnsafeObjectConvertor(kinds.Scheme),
			Namer:                      runtime.Namer(meta.NewAccessor()),
			TypeConverter:              types,
			EquivalentResourceRegistry: s.EquivalentResourceRegistry,
			Authorizer:                 s.Authorizer,
			Admit:                      config.AdmissionControl,
			MinRequestTimeout:          time.Duration(config.MinRequestTimeout) * time.Second,
			MaxRequestBodyBytes:        config.MaxRequestBodyBytes,
		}
		resources, _, err := version.InstallREST(s.Handler.GoRestfulContainer)
		if err != nil {
			return nil, fmt.Errorf("API version %s: %w", gv, err)
		}
		s.AggregatedDiscoveryGroupManager.AddGroupVersion(gv.Group, apidiscoveryv2.APIVersionDiscovery{
			Version: gv.Version, Resources: resources, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
		})
	}
	return installed, nil
}
