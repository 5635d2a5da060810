package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of what quotas count. The ones that have a constant in k8s.io/api are not repeated.
const (
	countPrefix = "count/"

	countPods     corev1.ResourceName = "count/pods"
	countServices corev1.ResourceName = "count/services"
	countPVCs     corev1.ResourceName = "count/persistentvolumeclaims"
	countClaims   corev1.ResourceName = "count/resourceclaims.resource.k8s.io"

	// What a storage class's claims use is named <class> and one of these.
	classStorageSuffix = ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)
	classClaimsSuffix  = ".storageclass.storage.k8s.io/" + string(corev1.ResourcePersistentVolumeClaims)
	// What a device class's claims use is named <class> and this.
	deviceClassSuffix = corev1.ResourceClaimsPerClass
	// The extended resource that every device class is has the name of this and <class>.
	deviceClassPrefix = resourcev1.ResourceDeviceClassPrefix

	requestsPrefix = corev1.DefaultResourceRequestsPrefix
)

var (
	pods                   = schema.GroupResource{Resource: "pods"}
	services               = schema.GroupResource{Resource: "services"}
	persistentVolumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}
	resourceClaims         = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
)

// legacyCounts are the resources that had a name for their number before count/ was one for all.
//
// Source: legacyObjectCountAliases in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/registry.go.
var legacyCounts = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
	{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
	{Resource: "secrets"}:                corev1.ResourceSecrets,
}

// counters are the resources behind the names that are fixed; the others follow from a name's form.
var counters = map[corev1.ResourceName]schema.GroupResource{
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

// ignored are the resources that quotas don't count: those that are never stored, and events.
//
// Source: ignoredResources in k8s.io/kubernetes/pkg/quota/v1/install/registry.go.
var ignored = map[schema.GroupResource]bool{
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

// Ignored tells whether quotas pay no attention to a resource: those that are never stored, and
// events. Its objects cost nothing.
func Ignored(resource schema.GroupResource) bool { return ignored[resource] }

// Resources are the resources whose objects count for names in q.Spec.Hard, sorted. Nothing else
// needs to be listed to compute q's usage.
//
// Extended resources are counted by pods, and by resource claims for devices of a class that is
// that extended resource.
func Resources(q *corev1.ResourceQuota) []schema.GroupResource {
	var all []schema.GroupResource
	for name := range q.Spec.Hard {
		all = appendCounted(all, name)
	}
	slices.SortFunc(all, func(a, b schema.GroupResource) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Resource, b.Resource)
	})
	return slices.Compact(all)
}

// appendCounted appends the resources whose objects can use what a quota calls name: mostly one,
// none for a name that nothing counts, two for extended resources.
//
// Source: the evaluators' MatchingResources, k8s.io/kubernetes/pkg/quota/v1/evaluator/core.
func appendCounted(to []schema.GroupResource, name corev1.ResourceName) []schema.GroupResource {
	if resource, ok := counters[name]; ok {
		return append(to, resource)
	}
	n := string(name)
	if counted, ok := strings.CutPrefix(n, countPrefix); ok {
		resource := schema.ParseGroupResource(counted)
		if resource.Resource == "" || ignored[resource] {
			return to
		}
		return append(to, resource)
	}
	if strings.HasPrefix(n, corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(n, corev1.ResourceRequestsHugePagesPrefix) {
		return append(to, pods)
	}
	if isExtendedForQuota(n) {
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

// counts tells whether objects of a resource can use what a quota calls name.
func counts(resource schema.GroupResource, name corev1.ResourceName) bool {
	var room [3]schema.GroupResource
	return slices.Contains(appendCounted(room[:0], name), resource)
}

// countName is the name of the number of a resource's objects.
func countName(resource schema.GroupResource) corev1.ResourceName {
	if resource.Group == "" {
		return corev1.ResourceName(countPrefix + resource.Resource)
	}
	return corev1.ResourceName(countPrefix + resource.Resource + "." + resource.Group)
}

// isExtendedForQuota tells whether a quota's name is that of requests of an extended resource.
//
// Source: isExtendedResourceNameForQuota in k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go.
func isExtendedForQuota(name string) bool {
	return strings.HasPrefix(name, requestsPrefix) &&
		(!isNative(name) || strings.HasPrefix(name, requestsPrefix+deviceClassPrefix))
}

// isExtended tells whether a name in a container's requests is one of an extended resource, that of
// a device class included. That the name is well-formed is the API's to check.
//
// Source: IsDRAExtendedResourceName in k8s.io/kubernetes/pkg/scheduler/util/utils.go.
func isExtended(name string) bool {
	return strings.HasPrefix(name, deviceClassPrefix) ||
		!isNative(name) && !strings.HasPrefix(name, requestsPrefix)
}

// isNative tells whether a name is Kubernetes' own: without a domain, or with one of kubernetes.io.
//
// Source: IsNativeResource in k8s.io/kubernetes/pkg/apis/core/v1/helper/helpers.go.
func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}
