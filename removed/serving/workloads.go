// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/extensions/install"
	deploymentstorage "k8s.io/kubernetes/pkg/registry/apps/deployment/storage"
	replicasetstorage "k8s.io/kubernetes/pkg/registry/apps/replicaset/storage"
)

// Kubernetes stopped serving these versions in 1.16, and still carries their types and their
// conversions. KEP-492's examples need them, and so do tests that a webhook sees a write in any version.
// They are views of the objects of apps/v1, so they share its storage.
var workloadVersions = []schema.GroupVersion{
	appsv1beta1.SchemeGroupVersion, appsv1beta2.SchemeGroupVersion, extensionsv1beta1.SchemeGroupVersion,
}

// workloads are the resources of apps/v1 that each of those versions had.
var workloads = map[schema.GroupVersion][]string{
	appsv1beta1.SchemeGroupVersion: {
		"deployments", "deployments/status", "deployments/scale",
		"statefulsets", "statefulsets/status", "statefulsets/scale",
		"controllerrevisions",
	},
	appsv1beta2.SchemeGroupVersion: {
		"deployments", "deployments/status", "deployments/scale",
		"statefulsets", "statefulsets/status", "statefulsets/scale",
		"daemonsets", "daemonsets/status",
		"replicasets", "replicasets/status", "replicasets/scale",
		"controllerrevisions",
	},
	extensionsv1beta1.SchemeGroupVersion: {
		"deployments", "deployments/status", "deployments/scale",
		"daemonsets", "daemonsets/status",
		"replicasets", "replicasets/status", "replicasets/scale",
	},
}

// A write to a scale looks up the path of the replicas in the request's version, and ends the process if
// there is none. Kubernetes' tables lack the version that it dropped first.
func init() {
	for _, replicas := range []managedfields.ResourcePathMappings{
		deploymentstorage.ReplicasPathMappings(), replicasetstorage.ReplicasPathMappings(),
	} {
		replicas[extensionsv1beta1.SchemeGroupVersion.String()] = replicas[appsv1.SchemeGroupVersion.String()]
	}
}

// AddVersions implements apiserver.Former. Only their own names switch versions on: api/beta=true
// means what it means to kube-apiserver.
func (API) AddVersions(group *server.APIGroupInfo, runtimeConfig map[string]string,
	enabled func(schema.GroupVersionResource) bool) *server.APIGroupInfo {
	switch group.PrioritizedVersions[0].Group {
	case appsv1.GroupName:
		return addWorkloads(group, runtimeConfig, enabled)
	case admissionregistrationv1.GroupName:
		addWebhookConfigurations(group, runtimeConfig, enabled)
	}
	return nil
}

// addWorkloads adds to apps, as Kubernetes installs it, the versions that runtimeConfig names, and
// returns the extensions group, or nil if nothing of it is asked for.
func addWorkloads(apps *server.APIGroupInfo, runtimeConfig map[string]string,
	enabled func(schema.GroupVersionResource) bool) *server.APIGroupInfo {
	stored := apps.VersionedResourcesStorageMap[appsv1.SchemeGroupVersion.Version]
	viewOf := func(gv schema.GroupVersion) map[string]rest.Storage {
		return view(gv, workloads[gv], stored, runtimeConfig, enabled)
	}
	for _, gv := range []schema.GroupVersion{appsv1beta1.SchemeGroupVersion, appsv1beta2.SchemeGroupVersion} {
		if resources := viewOf(gv); len(resources) > 0 {
			apps.VersionedResourcesStorageMap[gv.Version] = resources
		}
	}
	resources := viewOf(extensionsv1beta1.SchemeGroupVersion)
	if len(resources) == 0 {
		return nil
	}
	extensions := server.NewDefaultAPIGroupInfo(extensionsv1beta1.GroupName, legacyscheme.Scheme,
		legacyscheme.ParameterCodec, legacyscheme.Codecs)
	extensions.VersionedResourcesStorageMap[extensionsv1beta1.SchemeGroupVersion.Version] = resources
	return &extensions
}

// view returns what is served of a version that Kubernetes no longer serves: those of its former
// resources that are stored and that runtimeConfig names.
func view(gv schema.GroupVersion, had []string, stored map[string]rest.Storage, runtimeConfig map[string]string,
	enabled func(schema.GroupVersionResource) bool) map[string]rest.Storage {
	resources := map[string]rest.Storage{}
	for _, name := range had {
		resource, _, _ := strings.Cut(name, "/")
		if s, ok := stored[name]; ok && isNamed(runtimeConfig, gv, resource) && enabled(gv.WithResource(resource)) {
			resources[name] = s
		}
	}
	return resources
}

// isNamed reports whether runtimeConfig (--runtime-config) names gv, or its resource.
func isNamed(runtimeConfig map[string]string, gv schema.GroupVersion, resource string) bool {
	_, version := runtimeConfig[gv.String()]
	_, one := runtimeConfig[gv.String()+"/"+resource]
	return version || one
}
