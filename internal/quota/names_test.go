// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source: the evaluators' MatchingResources in k8s.io/kubernetes/pkg/quota/v1/evaluator/core, and
// TestPersistentVolumeClaimEvaluatorMatchingResources in persistent_volume_claims_test.go there.
func TestResources(t *testing.T) {
	const claims = "resourceclaims.resource.k8s.io"
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "pods", "memory": "pods", "ephemeral-storage": "pods", "pods": "pods", "count/pods": "pods",
		"requests.cpu": "pods", "requests.memory": "pods", "requests.ephemeral-storage": "pods",
		"limits.cpu": "pods", "limits.memory": "pods", "limits.ephemeral-storage": "pods",
		"hugepages-2Mi": "pods", "requests.hugepages-1Gi": "pods",
		"requests.nvidia.com/gpu":                                 "pods " + claims,
		"requests.deviceclass.resource.kubernetes.io/gpu":         "pods " + claims,
		"gpu.deviceclass.resource.k8s.io/devices":                 claims,
		"count/resourceclaims.resource.k8s.io":                    claims,
		"services":                                                "services",
		"services.nodeports":                                      "services",
		"services.loadbalancers":                                  "services",
		"count/services":                                          "services",
		"persistentvolumeclaims":                                  "persistentvolumeclaims",
		"requests.storage":                                        "persistentvolumeclaims",
		"count/persistentvolumeclaims":                            "persistentvolumeclaims",
		"gold.storageclass.storage.k8s.io/requests.storage":       "persistentvolumeclaims",
		"gold.storageclass.storage.k8s.io/persistentvolumeclaims": "persistentvolumeclaims",
		"configmaps":                                              "configmaps", "secrets": "secrets",
		"resourcequotas": "resourcequotas", "replicationcontrollers": "replicationcontrollers",
		"count/configmaps":                  "configmaps",
		"count/deployments.apps":            "deployments.apps",
		"count/crontabs.stable.example.com": "crontabs.stable.example.com",
		// Nothing counts these.
		"storage": "", "bronze.storageclass.storage.k8s.io/storage": "", "gold.storage.k8s.io/requests.storage": "",
		"nvidia.com/gpu": "", "limits.nvidia.com/gpu": "", "requests.kubernetes.io/x": "", "requests.x": "",
		"count/": "", "": "",
		"count/events": "", "count/events.events.k8s.io": "",
	} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: {}}}}
		var got []string
		for _, resource := range Resources(q) {
			got = append(got, resource.String())
			if !CanUse(resource, name) {
				t.Errorf("%s are listed for %s but don't count", resource, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}

	q := newQuota("q",
		"cpu=1,limits.memory=1,services=1,count/services=1,count/deployments.apps=1,count/jobs.batch=1,secrets=1", "")
	want := []schema.GroupResource{{Resource: "pods"}, {Resource: "secrets"}, {Resource: "services"},
		{Group: "apps", Resource: "deployments"}, {Group: "batch", Resource: "jobs"}}
	if got := Resources(q); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Whatever an object uses, a quota on that name finds the object's resource.
func TestResourcesOfUsage(t *testing.T) {
	for resource, costs := range map[schema.GroupResource]*Cost{
		pods:                   cost(t, pods, largePod()),
		services:               cost(t, services, newService(corev1.ServiceTypeLoadBalancer, nil, 1)),
		persistentVolumeClaims: cost(t, persistentVolumeClaims, newPVC("1Gi", "gold")),
		resourceClaims:         cost(t, resourceClaims, newClaim(exactly("gpu", 1))),
		configMaps:             cost(t, configMaps, marker("c")),
	} {
		for name := range costs.Usage() {
			if !CanUse(resource, name) {
				t.Errorf("%s use %s but aren't listed for it", resource, name)
			}
		}
	}
}
