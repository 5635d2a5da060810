// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of what quotas count, except those that have a constant in k8s.io/api.
const (
	countPrefix = "count/"

	countPods     corev1.ResourceName = "count/pods"
	countServices corev1.ResourceName = "count/services"
	countPVCs     corev1.ResourceName = "count/persistentvolumeclaims"
	countClaims   corev1.ResourceName = "count/resourceclaims.resource.k8s.io"

	// The names of what the claims of a storage class use are <class> and one of these suffixes.
	classStorageSuffix = ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)
	classClaimsSuffix  = ".storageclass.storage.k8s.io/" + string(corev1.ResourcePersistentVolumeClaims)
	// The name of what the claims of a device class use is <class> and this suffix.
	deviceClassSuffix = corev1.ResourceClaimsPerClass
	// The name of the extended resource that every device class is consists of this prefix and
	// <class>.
	deviceClassPrefix = resourcev1.ResourceDeviceClassPrefix

	requestsPrefix = corev1.DefaultResourceRequestsPrefix
)

var (
	pods                   = schema.GroupResource{Resource: "pods"}
	services               = schema.GroupResource{Resource: "services"}
	persistentVolumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}
	resourceClaims         = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
)

// legacyCounts holds the resources whose number had a name before count/ was introduced for all.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/registry.go#legacyObjectCountAliases 0c7c2f8d
var legacyCounts = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
	{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
	{Resource: "secrets"}:                corev1.ResourceSecrets,
}

// resourcesByName holds the resources that fixed names count. For other names, see appendResources.
var resourcesByName = map[corev1.ResourceName]schema.GroupResource{
	corev1.ResourcePods:                     pods,
	corev1.ResourceCPU:                      pods,
	corev1.ResourceMemory:                   pods,
	corev1.ResourceEphemeralStorage:         pods,
	corev1.ResourceRequestsCPU:              pods,
	corev1.ResourceRequestsMemory:           pods,
	corev1.ResourceRequestsEphemeralStorage: pods,
	corev1.ResourceLimitsCPU:                pods,
	corev1.ResourceLimitsMemory:             pods,
	corev1.ResourceLimitsEphemeralStorage:   pods,

	corev1.ResourceServices:              services,
	corev1.ResourceServicesNodePorts:     services,
	corev1.ResourceServicesLoadBalancers: services,

	corev1.ResourcePersistentVolumeClaims: persistentVolumeClaims,
	corev1.ResourceRequestsStorage:        persistentVolumeClaims,

	corev1.ResourceConfigMaps:             {Resource: "configmaps"},
	corev1.ResourceQuotas:                 {Resource: "resourcequotas"},
	corev1.ResourceReplicationControllers: {Resource: "replicationcontrollers"},
	corev1.ResourceSecrets:                {Resource: "secrets"},
}

// ignoredResources holds the resources that quotas don't count: events, and everything that is
// never stored.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/install/registry.go#ignoredResources c6687c46
var ignoredResources = map[schema.GroupResource]bool{
	{Resource: "bindings"}:                                                 true,
	{Resource: "componentstatuses"}:                                        true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Resource: "events"}:                         true,
	{Group: "events.k8s.io", Resource: "events"}: true,
}

// IsIgnored reports whether quotas don't count a resource, so that its objects cost nothing.
func IsIgnored(resource schema.GroupResource) bool { return ignoredResources[resource] }

// StoredAs returns the resource as which objects of a resource count. Workloads of the group
// extensions count as those of apps.
func StoredAs(resource schema.GroupResource) schema.GroupResource {
	if resource.Group == extensionsv1beta1.GroupName {
		switch resource.Resource {
		case "daemonsets", "deployments", "replicasets":
			resource.Group = appsv1.GroupName
		}
	}
	return resource
}

// Resources returns the sorted resources whose objects count for names in q.Spec.Hard. Only these
// need to be listed to compute q's usage.
//
// Extended resources are counted by pods, and by resource claims for devices of a class that is
// that extended resource.
func Resources(q *corev1.ResourceQuota) []schema.GroupResource {
	var all []schema.GroupResource
	for name := range q.Spec.Hard {
		all = appendResources(all, name)
	}
	slices.SortFunc(all, func(a, b schema.GroupResource) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Resource, b.Resource)
	})
	return slices.Compact(all)
}

// appendResources appends the resources whose objects can use a name: usually one, none for a name
// that nothing counts, two for an extended resource.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core#MatchingResources a0b66df7
func appendResources(to []schema.GroupResource, name corev1.ResourceName) []schema.GroupResource {
	if resource, ok := resourcesByName[name]; ok {
		return append(to, resource)
	}
	n := string(name)
	if counted, ok := strings.CutPrefix(n, countPrefix); ok {
		resource := schema.ParseGroupResource(counted)
		if resource.Resource == "" || ignoredResources[resource] {
			return to
		}
		return append(to, resource)
	}
	if strings.HasPrefix(n, corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(n, corev1.ResourceRequestsHugePagesPrefix) {
		return append(to, pods)
	}
	if isExtendedQuotaName(n) {
		to = append(to, pods, resourceClaims)
	}
	switch {
	case strings.HasSuffix(n, classStorageSuffix), strings.HasSuffix(n, classClaimsSuffix):
		to = append(to, persistentVolumeClaims)
	case strings.HasSuffix(n, deviceClassSuffix):
		to = append(to, resourceClaims)
	}
	return to
}

// CanUse reports whether objects of a resource can use a name.
func CanUse(resource schema.GroupResource, name corev1.ResourceName) bool {
	var buffer [3]schema.GroupResource
	return slices.Contains(appendResources(buffer[:0], name), resource)
}

// countName returns the name under which the objects of a resource are counted.
func countName(resource schema.GroupResource) corev1.ResourceName {
	if resource.Group == "" {
		return corev1.ResourceName(countPrefix + resource.Resource)
	}
	return corev1.ResourceName(countPrefix + resource.Resource + "." + resource.Group)
}

// isExtendedQuotaName reports whether a name in a quota means requests of an extended resource.
//
// Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go#isExtendedResourceNameForQuota 8f197b52
func isExtendedQuotaName(name string) bool {
	return strings.HasPrefix(name, requestsPrefix) &&
		(!isNativeName(name) || strings.HasPrefix(name, requestsPrefix+deviceClassPrefix))
}

// isExtendedResource reports whether a name in a container's requests is that of an extended
// resource, including that of a device class. The API checks whether it is well-formed.
//
// Source: k8s.io/kubernetes/pkg/scheduler/util/utils.go#IsDRAExtendedResourceName 725a9dfb
func isExtendedResource(name string) bool {
	return strings.HasPrefix(name, deviceClassPrefix) ||
		!isNativeName(name) && !strings.HasPrefix(name, requestsPrefix)
}

// isNativeName reports whether a name is Kubernetes' own: without a domain, or with one of
// kubernetes.io.
//
// Source: k8s.io/kubernetes/pkg/apis/core/v1/helper/helpers.go#IsNativeResource 2bfb32ea
func isNativeName(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}
