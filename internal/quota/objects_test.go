// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func newService(serviceType corev1.ServiceType, allocate *bool, nodePorts ...int32) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: serviceType, AllocateLoadBalancerNodePorts: allocate}}
	for i, nodePort := range nodePorts {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: int32(27443 + i), NodePort: nodePort})
	}
	return s
}

// Source: TestServiceEvaluatorUsage in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/services_test.go.
func TestServiceUsage(t *testing.T) {
	yes, no := true, false
	for name, test := range map[string]struct {
		service                  *corev1.Service
		nodePorts, loadBalancers int
	}{
		"loadbalancer":                      {newService(corev1.ServiceTypeLoadBalancer, nil), 0, 1},
		"loadbalancer_ports":                {newService(corev1.ServiceTypeLoadBalancer, nil, 0), 1, 1},
		"loadbalancer_2_ports":              {newService(corev1.ServiceTypeLoadBalancer, nil, 0, 0), 2, 1},
		"clusterip":                         {newService(corev1.ServiceTypeClusterIP, nil, 0), 0, 0},
		"nodeports":                         {newService(corev1.ServiceTypeNodePort, nil, 0), 1, 0},
		"multi-nodeports":                   {newService(corev1.ServiceTypeNodePort, nil, 0, 0), 2, 0},
		"nodeports-disabled":                {newService(corev1.ServiceTypeLoadBalancer, &no, 0, 0), 0, 1},
		"nodeports-default-enabled":         {newService(corev1.ServiceTypeLoadBalancer, nil, 32001, 32002), 2, 1},
		"nodeports-explicitly-enabled":      {newService(corev1.ServiceTypeLoadBalancer, &yes, 0, 0), 2, 1},
		"nodeports-disabled-but-specified":  {newService(corev1.ServiceTypeLoadBalancer, &no, 32001, 32002), 2, 1},
		"nodeports disabled, one specified": {newService(corev1.ServiceTypeLoadBalancer, &no, 32001, 0), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			wantList(t, "usage", cost(t, services, test.service).Usage(),
				list(fmt.Sprintf("count/services=1,services=1,services.nodeports=%d,services.loadbalancers=%d",
					test.nodePorts, test.loadBalancers)))
		})
	}
}

func newPVC(storage, class string) *corev1.PersistentVolumeClaim {
	pvc := &corev1.PersistentVolumeClaim{}
	if storage != "" {
		pvc.Spec.Resources.Requests = list("storage=" + storage)
	}
	if class != "" {
		pvc.Spec.StorageClassName = &class
	}
	return pvc
}

// Source: TestPersistentVolumeClaimEvaluatorUsage in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims_test.go.
func TestVolumeClaimUsage(t *testing.T) {
	const one = "count/persistentvolumeclaims=1,persistentvolumeclaims=1,"
	gold := func(storage string) string {
		return "requests.storage=" + storage + ",gold.storageclass.storage.k8s.io/requests.storage=" + storage +
			",gold.storageclass.storage.k8s.io/persistentvolumeclaims=1"
	}
	allocated := func(pvc *corev1.PersistentVolumeClaim, storage string) *corev1.PersistentVolumeClaim {
		pvc.Status.AllocatedResources = list("storage=" + storage)
		return pvc
	}
	annotated := newPVC("10Gi", "silver")
	annotated.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "gold"}
	for name, test := range map[string]struct {
		pvc  *corev1.PersistentVolumeClaim
		want string
	}{
		"pvc-usage":                           {newPVC("10Gi", ""), "requests.storage=10Gi"},
		"pvc-usage-by-class":                  {newPVC("10Gi", "gold"), gold("10Gi")},
		"pvc-usage-rounded":                   {newPVC("1001m", ""), "requests.storage=2"},
		"pvc-usage-by-class-rounded":          {newPVC("1001m", "gold"), gold("2")},
		"pvc-usage-higher-allocated-resource": {allocated(newPVC("5G", ""), "10G"), "requests.storage=10G"},
		"pvc-usage-lower-allocated-resource":  {allocated(newPVC("10G", ""), "5G"), "requests.storage=10G"},
		"allocated, rounded":                  {allocated(newPVC("1", "gold"), "1500m"), gold("2")},
		"class by annotation":                 {annotated, gold("10Gi")},
		"no request": {allocated(newPVC("", "gold"), "5G"),
			"gold.storageclass.storage.k8s.io/persistentvolumeclaims=1"},
	} {
		t.Run(name, func(t *testing.T) {
			wantList(t, "usage", cost(t, persistentVolumeClaims, test.pvc).Usage(), list(one+test.want))
		})
	}
}

func exactly(class string, n int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n,
	}}
}

func inMode(mode resourcev1.DeviceAllocationMode) resourcev1.DeviceRequest {
	r := exactly("gpu", 0)
	r.Exactly.AllocationMode = mode
	return r
}

func sub(class string, mode resourcev1.DeviceAllocationMode, n int64) resourcev1.DeviceSubRequest {
	return resourcev1.DeviceSubRequest{DeviceClassName: class, AllocationMode: mode, Count: n}
}

func firstOf(subs ...resourcev1.DeviceSubRequest) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{FirstAvailable: subs}
}

func newClaim(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "foo", Namespace: "ns"},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

// Source: TestResourceClaimEvaluatorUsage in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims_test.go.
func TestResourceClaimUsage(t *testing.T) {
	const exact, all = resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll
	const (
		gpu      = ",gpu.deviceclass.resource.k8s.io/devices="
		extended = ",requests.deviceclass.resource.kubernetes.io/gpu="
		tpu      = ",tpu.deviceclass.resource.k8s.io/devices=1,requests.deviceclass.resource.kubernetes.io/tpu=1"
	)
	for name, test := range map[string]struct {
		claim *resourcev1.ResourceClaim
		want  string
	}{
		"none":   {newClaim(), ""},
		"simple": {newClaim(exactly("gpu", 1)), gpu + "1" + extended + "1"},
		"many-requests": {newClaim(slices.Repeat([]resourcev1.DeviceRequest{exactly("gpu", 1)}, 5)...), gpu + "5" +
			extended + "5"},
		"count":              {newClaim(exactly("gpu", 5)), gpu + "5" + extended + "5"},
		"two classes":        {newClaim(exactly("gpu", 5), exactly("tpu", 1)), gpu + "5" + extended + "5" + tpu},
		"all":                {newClaim(inMode(all)), gpu + "32" + extended + "32"},
		"unknown-count-mode": {newClaim(inMode("future-mode")), gpu + "0"},
		"no class":           {newClaim(exactly("", 1)), ",.deviceclass.resource.k8s.io/devices=1"},
		"unknown request":    {newClaim(resourcev1.DeviceRequest{}), ""},
		"prioritized-list":   {newClaim(firstOf(sub("gpu", exact, 1))), gpu + "1" + extended + "1"},
		"prioritized-list-multiple-subrequests": {
			newClaim(firstOf(sub("gpu", exact, 2), sub("gpu", exact, 1), sub("tpu", exact, 1))), gpu + "2" + extended +
				"2" + tpu,
		},
		"prioritized-list-all": {newClaim(firstOf(sub("gpu", all, 0), sub("gpu", exact, 1))), gpu +
			"32" + extended + "32"},
		"prioritized-list-unknown-mode": {newClaim(firstOf(sub("gpu", "future-mode", 3))), ""},
		"prioritized-list beside an exact one": {newClaim(exactly("gpu", 1),
			firstOf(sub("gpu", exact, 2), sub("gpu", exact, 1))), gpu + "3" + extended + "3"},
	} {
		t.Run(name, func(t *testing.T) {
			wantList(t, "usage", cost(t, resourceClaims, test.claim).Usage(),
				list("count/resourceclaims.resource.k8s.io=1"+test.want))
		})
	}
}

// Source: objectCountEvaluator in k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go, and the
// resources that k8s.io/kubernetes/pkg/quota/v1/install/registry.go ignores.
func TestCounted(t *testing.T) {
	for resource, want := range map[schema.GroupResource]string{
		{Resource: "configmaps"}: "count/configmaps=1,configmaps=1",
		{Resource: "secrets"}:    "count/secrets=1,secrets=1",
		{Resource: "replicationcontrollers"}: "count/replicationcontrollers=1," +
			"replicationcontrollers=1",
		{Resource: "resourcequotas"}: "count/resourcequotas=1," +
			"resourcequotas=1",
		{Group: "apps", Resource: "deployments"}:                               "count/deployments.apps=1",
		{Group: "stable.example.com", Resource: "crontabs"}:                    "count/crontabs.stable.example.com=1",
		{Resource: "limitranges"}:                                              "count/limitranges=1",
		{Resource: "events"}:                                                   "",
		{Group: "events.k8s.io", Resource: "events"}:                           "",
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: "",
		// Another group's resources of the same name are others.
		{Group: "example.com", Resource: "pods"}:     "count/pods.example.com=1",
		{Group: "example.com", Resource: "services"}: "count/services.example.com=1",
		{Group: "example.com", Resource: "secrets"}:  "count/secrets.example.com=1",
	} {
		for _, object := range []runtime.Object{marker("x"), &unstructured.Unstructured{},
			(*metav1.PartialObjectMetadata)(nil), &corev1.ConfigMap{}} {
			wantList(t, resource.String(), cost(t, resource, object).Usage(), list(want))
		}
		if IsIgnored(resource) != (want == "") {
			t.Errorf("Ignored(%s) is %t", resource, IsIgnored(resource))
		}
	}
}

func TestCostOfErrors(t *testing.T) {
	for _, test := range []struct {
		resource schema.GroupResource
		object   runtime.Object
		want     string
	}{
		{pods, &corev1.Service{}, "pods: object to measure must be a *v1.Pod, is a *v1.Service"},
		{pods, (*corev1.Pod)(nil), "pods: object to measure must not be nil"},
		{pods, nil, "pods: object to measure must not be nil"},
		{services, marker("x"), "services: object to measure must be a *v1.Service, is a *v1.PartialObjectMetadata"},
		{persistentVolumeClaims, marker("x"),
			"persistentvolumeclaims: object to measure must be a *v1.PersistentVolumeClaim, is a " +
				"*v1.PartialObjectMetadata"},
		{resourceClaims, marker("x"),
			"resourceclaims.resource.k8s.io: object to measure must be a *v1.ResourceClaim, is a " +
				"*v1.PartialObjectMetadata"},
		{configMaps, nil, "configmaps: object to measure must not be nil"},
	} {
		c, err := CostOf(test.resource, test.object)
		if c != nil || err == nil || err.Error() != test.want {
			t.Errorf("got %v, %v\nwant %s", c, err, test.want)
		}
	}
}
