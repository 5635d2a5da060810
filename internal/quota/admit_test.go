// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type admitTest struct {
	resource schema.GroupResource
	old, new runtime.Object
	quotas   []*corev1.ResourceQuota
	limited  []LimitedResource
	// Either the changed quotas, or the refusal.
	want, err string
}

func (test admitTest) run(t *testing.T) {
	t.Helper()
	c := change(t, test.resource, test.old, test.new)
	moved, err := c.Admit(test.quotas, test.limited)
	var message string
	if err != nil {
		message = err.Error()
	}
	if message != test.err {
		t.Errorf("error:\n got %s\nwant %s", message, test.err)
	}
	if got := usage(moved); got != test.want {
		t.Errorf("moved:\n got %s\nwant %s", got, test.want)
	}
	if err == nil {
		if got := usage(c.Apply(test.quotas)); got != test.want {
			t.Errorf("Apply says otherwise: %s", got)
		}
	}
}

func quotas(all ...*corev1.ResourceQuota) []*corev1.ResourceQuota { return all }

// Messages: CheckRequest in k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go.
// Cases with a Test name are those of
// k8s.io/kubernetes/plugin/pkg/admission/resourcequota/admission_test.go.
func TestAdmit(t *testing.T) {
	pod := func(requests, limits string, options ...podOption) *corev1.Pod {
		return newPod(append(options, with(box("c", requests, limits)))...)
	}
	full := newQuota("q", "pods=2", "pods=2")
	for name, test := range map[string]admitTest{
		"TestAdmitBelowQuotaLimit": {
			pods, nil, pod("cpu=100m,memory=2Gi", ""),
			quotas(newQuota("quota", "cpu=3,memory=100Gi,pods=5", "cpu=1,memory=50Gi,pods=3")), nil,
			"quota: cpu=1100m,memory=52Gi,pods=4", "",
		},
		"TestAdmitExceedQuotaLimit": {
			pods, nil, pod("cpu=3,memory=2Gi", ""),
			quotas(newQuota("quota", "cpu=3,memory=100Gi,pods=5", "cpu=1,memory=50Gi,pods=3")), nil,
			"", "exceeded quota: quota, requested: cpu=3, used: cpu=1, limited: cpu=3",
		},
		"exactly full": {pods, nil, newPod(), quotas(newQuota("q", "pods=3", "pods=2")), nil, "q: pods=3", ""},
		"full": {pods, nil, newPod(), quotas(full), nil, "",
			"exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"},
		"several resources": {
			pods, nil, pod("cpu=1500m,memory=3Gi", ""),
			quotas(newQuota("q", "pods=2,cpu=2,memory=4Gi", "pods=2,cpu=1,memory=1Gi")), nil,
			"", "exceeded quota: q, requested: cpu=1500m,pods=1, used: cpu=1,pods=2, limited: cpu=2,pods=2",
		},
		"several quotas": {
			pods, nil, pod("cpu=1,memory=3Gi", ""),
			quotas(full, newQuota("r", "pods=9", "pods=1"), newQuota("s", "memory=1Gi", "memory=500Mi")), nil,
			"",
			"exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2; exceeded quota: s, requested: " +
				"memory=3Gi, used: memory=500Mi, limited: memory=1Gi",
		},
		"one of two is enough to refuse": {
			pods, nil, newPod(), quotas(newQuota("a", "pods=9", "pods=1"), full), nil, "",
			"exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
		},
		"TestAdmitEnforceQuotaConstraints": {
			pods, nil, pod("cpu=100m,memory=2Gi", "cpu=200m"),
			quotas(newQuota("quota", "cpu=3,memory=100Gi,limits.memory=200Gi,pods=5",
				"cpu=1,memory=50Gi,limits.memory=100Gi,pods=3")), nil,
			"", "failed quota: quota: must specify limits.memory for: c",
		},
		"unstated for two quotas, and too many": {
			pods, nil, newPod(with(box("c1", "", ""), box("c2", "cpu=1", ""))),
			quotas(newQuota("a", "cpu=3,memory=1Gi", "cpu=1,memory=0"), full, newQuota("b", "memory=1Gi", "memory=0")),
			nil,
			"",
			"failed quota: a: must specify cpu for: c1; memory for: c1,c2; failed quota: b: must specify memory " +
				"for: c1,c2; " +
				"exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
		},
		"unstated where the scope is another": {
			pods, nil, newPod(with(box("c", "", ""))), quotas(newQuota("q", "cpu=3", "cpu=0", scoped(notBestEffort))),
			nil, "", "",
		},
		"TestAdmitPodInNamespaceWithoutQuota": {pods, nil, newPod(), nil, nil, "", ""},
		"TestAdmitWhenUnrelatedResourceExceedsQuota": {
			pods, nil, newPod(), quotas(newQuota("quota", "services=3,pods=4", "services=4,pods=1")), nil,
			"quota: pods=2,services=4", "",
		},
		"a zero over the limit": {
			pods, nil, pod("cpu=0", ""), quotas(newQuota("q", "cpu=1,pods=5", "cpu=2,pods=1")), nil, "q: cpu=2,pods=2",
			"",
		},
		"TestAdmitBelowBestEffortQuotaLimit": {
			pods, nil, newPod(), quotas(newQuota("quota-besteffort", "pods=5", "pods=3", scoped(bestEffort)),
				newQuota("quota-not-besteffort", "pods=5", "pods=3", scoped(notBestEffort))), nil,
			"quota-besteffort: pods=4", "",
		},
		"TestAdmitBelowTerminatingQuotaLimitWhenPodScopeUpdated": {
			pods, newPod(), newPod(deadline(100)), quotas(newQuota("terminating", "pods=5", "pods=3",
				scoped(terminating)), newQuota("non-terminating", "pods=5", "pods=3", scoped(notTerminating))), nil,
			// Upstream leaves non-terminating at 3 until its controller looks.
			"terminating: pods=4; non-terminating: pods=2", "",
		},
		"into a full scope": {
			pods, newPod(), newPod(deadline(100)), quotas(newQuota("t", "pods=3", "pods=3", scoped(terminating)), full),
			nil,
			"", "exceeded quota: t, requested: pods=1, used: pods=3, limited: pods=3",
		},
		"out of a scope over its limit": {
			pods, newPod(), newPod(deadline(100)), quotas(newQuota("n", "pods=1", "pods=3", scoped(notTerminating))),
			nil, "n: pods=2", "",
		},
		"less than before, over the limit": {
			pods, pod("cpu=3", ""), pod("cpu=2", ""), quotas(newQuota("q", "cpu=1", "cpu=3")), nil, "q: cpu=2", "",
		},
		"more than before, over the limit": {
			pods, pod("cpu=3", ""), pod("cpu=3500m", ""), quotas(newQuota("q", "cpu=1", "cpu=3")), nil,
			"", "exceeded quota: q, requested: cpu=500m, used: cpu=3, limited: cpu=1",
		},
		"more of one, less of another": {
			pods, pod("cpu=3,memory=1Gi", ""), pod("cpu=1,memory=2Gi", ""),
			quotas(newQuota("q", "cpu=1,memory=1Gi", "cpu=3,memory=1Gi")), nil,
			"", "exceeded quota: q, requested: memory=1Gi, used: memory=1Gi, limited: memory=1Gi",
		},
		"delete, over the limit": {pods, pod("cpu=1", ""), nil,
			quotas(newQuota("q", "pods=1,cpu=1", "pods=3,cpu=3")), nil, "q: cpu=2,pods=2", ""},
		"update of nothing, all wrong": {pods, newPod(with(box("c", "", ""))), newPod(with(box("c", "", ""))),
			quotas(full, newQuota("r", "cpu=1", "")), nil, "", ""},
		"TestAdmitHandlesOldObjects": {
			services, newService(corev1.ServiceTypeLoadBalancer, nil), newService(corev1.ServiceTypeNodePort, nil, 0),
			quotas(newQuota("quota", "services=10,services.loadbalancers=10,services.nodeports=10",
				"services=1,services.loadbalancers=1,services.nodeports=0")), nil,
			// Upstream leaves services.loadbalancers at 1 until its controller looks.
			"quota: services=1,services.loadbalancers=0,services.nodeports=1", "",
		},
		"TestAdmitHandlesPVCUpdates": {
			persistentVolumeClaims, newPVC("10Gi", ""), newPVC("15Gi", ""),
			quotas(newQuota("quota", "persistentvolumeclaims=3,requests.storage=100Gi",
				"persistentvolumeclaims=1,requests.storage=10Gi")), nil,
			"quota: persistentvolumeclaims=1,requests.storage=15Gi", "",
		},
		"TestAdmitHandlesNegativePVCUpdates": {
			persistentVolumeClaims, newPVC("10Gi", ""), newPVC("5Gi", ""),
			quotas(newQuota("quota", "persistentvolumeclaims=3,requests.storage=100Gi",
				"persistentvolumeclaims=1,requests.storage=10Gi")), nil,
			"quota: persistentvolumeclaims=1,requests.storage=5Gi", "",
		},
		"TestAdmitRejectsNegativeUsage": {
			persistentVolumeClaims, nil, newPVC("-1Gi", "gold"),
			quotas(newQuota("quota", "persistentvolumeclaims=3,requests.storage=100Gi",
				"persistentvolumeclaims=1,requests.storage=10Gi")), nil,
			"",
			"quota usage is negative for resource(s): " +
				"gold.storageclass.storage.k8s.io/requests.storage,requests.storage",
		},
		"counts": {
			configMaps, nil, marker("c"), quotas(newQuota("q", "configmaps=1,count/configmaps=1,count/secrets=0",
				"configmaps=1,count/configmaps=1,count/secrets=0")), nil,
			"",
			"exceeded quota: q, requested: configmaps=1,count/configmaps=1, used: " +
				"configmaps=1,count/configmaps=1, limited: configmaps=1,count/configmaps=1",
		},
		"unknown": {
			pods, nil, newPod(with(box("c", "nvidia.com/gpu=1", ""))),
			quotas(newQuota("q", "pods=2,requests.nvidia.com/gpu=1,services=4", "pods=1")), nil,
			"", "status unknown for quota: q, resources: pods,requests.nvidia.com/gpu",
		},
		// Upstream refuses this too.
		"unknown, but not used": {pods, nil, newPod(),
			quotas(newQuota("q", "pods=2,requests.nvidia.com/gpu=1", "pods=1")), nil, "q: pods=2", ""},
		"unknown, but less": {pods, pod("cpu=2", ""), pod("cpu=1", ""), quotas(newQuota("q", "cpu=2", "")), nil, "",
			""},
		"unknown, and another exceeded": {
			pods, nil, newPod(), quotas(newQuota("new", "pods=2", ""), full), nil,
			"",
			"status unknown for quota: new, resources: pods; exceeded quota: q, requested: pods=1, used: " +
				"pods=2, limited: pods=2",
		},
		"unknown, but not of pods": {pods, nil, newPod(), quotas(newQuota("q", "pods=2,services=4", "pods=1")), nil,
			"q: pods=2", ""},
		"unknown in another scope": {pods, nil, newPod(), quotas(newQuota("q", "pods=2", "", scoped(terminating))), nil,
			"", ""},
	} {
		t.Run(name, test.run)
	}
}

// The limits of spec.hard apply, even if no controller has copied them to the status yet.
func TestAdmitBySpec(t *testing.T) {
	q := newQuota("q", "pods=2", "pods=2")
	q.Status.Hard = list("pods=5")
	if _, err := change(t, pods, nil, newPod()).Admit(quotas(q), nil); err == nil ||
		err.Error() != "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" {
		t.Errorf("got %v", err)
	}
	q.Spec.Hard, q.Status.Hard = list("pods=5"), list("pods=2")
	moved, err := change(t, pods, nil, newPod()).Admit(quotas(q), nil)
	if err != nil || len(moved) != 1 {
		t.Fatalf("got %v, %v", moved, err)
	}
	wantList(t, "status.hard", moved[0].Status.Hard, list("pods=5"))
}

func TestAdmitLimited(t *testing.T) {
	cpu := []LimitedResource{{Resource: "pods", MatchContains: []string{"cpu"}}}
	balancers := []LimitedResource{{Resource: "services", MatchContains: []string{"services.loadbalancers"}}}
	storage := []LimitedResource{{Resource: "persistentvolumeclaims",
		MatchContains: []string{".storageclass.storage.k8s.io/requests.storage"}}}
	crontabs := schema.GroupResource{Group: "stable.example.com", Resource: "crontabs"}
	cron := []LimitedResource{{APIGroup: crontabs.Group, Resource: crontabs.Resource,
		MatchContains: []string{"count/"}}}
	pod := newPod(with(box("c", "cpu=3,memory=2Gi", "")))
	balancer := newService(corev1.ServiceTypeLoadBalancer, nil)
	for name, test := range map[string]admitTest{
		"TestAdmitLimitedResourceNoQuota": {pods, nil, pod, nil, cpu, "",
			"insufficient quota to consume: cpu,requests.cpu"},
		"TestAdmitLimitedResourceNoQuotaIgnoresNonMatchingResources": {pods, nil,
			newPod(with(box("c", "memory=2Gi", ""))), nil, cpu, "", ""},
		"TestAdmitLimitedResourceWithQuota": {
			pods, nil, pod, quotas(newQuota("quota", "requests.cpu=10", "requests.cpu=1")),
			[]LimitedResource{{Resource: "pods", MatchContains: []string{"requests.cpu"}}},
			"quota: requests.cpu=4", "",
		},
		"TestAdmitLimitedResourceWithMultipleQuota": {
			pods, nil, pod, quotas(newQuota("quota1", "requests.cpu=10", "requests.cpu=1"),
				newQuota("quota2", "cpu=10", "cpu=1")), cpu, "quota1: requests.cpu=4; quota2: cpu=4", "",
		},
		"TestAdmitLimitedResourceWithQuotaThatDoesNotCover": {
			pods, nil, pod, quotas(newQuota("quota", "memory=10Gi", "memory=1Gi")), cpu, "",
			"insufficient quota to consume: cpu,requests.cpu",
		},
		"TestAdmitZeroDeltaUsageWithoutCoveringQuota": {services, balancer, balancer, nil, balancers, "", ""},
		"TestAdmitRejectIncreaseUsageWithoutCoveringQuota": {services, newService(corev1.ServiceTypeNodePort, nil, 0),
			balancer, nil, balancers, "", "insufficient quota to consume: services.loadbalancers"},
		"TestAdmitAllowDecreaseUsageWithoutCoveringQuota": {services, balancer,
			newService(corev1.ServiceTypeClusterIP, nil), nil, balancers, "", ""},
		"none of what is limited": {services, nil,
			newService(corev1.ServiceTypeClusterIP, nil), nil, balancers, "", ""},
		"delete without covering quota": {services, balancer, nil, nil, balancers, "", ""},
		"a quota in another scope does not cover": {pods, nil, pod,
			quotas(newQuota("q", "cpu=10,requests.cpu=10", "", scoped(terminating))), cpu, "",
			"insufficient quota to consume: cpu,requests.cpu"},
		"a class": {persistentVolumeClaims, nil, newPVC("1Gi", "gold"), nil, storage, "",
			"insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage"},
		"no class":                    {persistentVolumeClaims, nil, newPVC("1Gi", ""), nil, storage, "", ""},
		"a rule for another resource": {pods, nil, pod, nil, storage, "", ""},
		"a rule for another group": {schema.GroupResource{Resource: "crontabs"}, nil, marker("c"), nil, cron, "",
			""},
		"a custom resource": {crontabs, nil, marker("c"), nil, cron, "",
			"insufficient quota to consume: count/crontabs.stable.example.com"},
		"all that is wrong": {
			pods, nil, newPod(with(box("c", "cpu=3", ""))),
			quotas(newQuota("quota", "memory=10Gi,pods=0", "memory=1Gi,pods=0")),
			[]LimitedResource{{Resource: "pods", MatchContains: []string{"cpu", "requests"},
				MatchScopes: []corev1.ScopedResourceSelectorRequirement{requirement(notBestEffort, exists)}}},
			"", "failed quota: quota: must specify memory for: c; insufficient quota to consume: cpu,requests.cpu; " +
				"insufficient quota to match these scopes: [{NotBestEffort Exists []}]; exceeded quota: quota, " +
				"requested: pods=1, used: pods=0, limited: pods=0",
		},
	} {
		t.Run(name, test.run)
	}
}

// Source: TestAdmitLimitedScopeWithCoverQuota in
// k8s.io/kubernetes/plugin/pkg/admission/resourcequota/admission_test.go.
func TestAdmitLimitedScopes(t *testing.T) {
	scopes := func(all ...corev1.ScopedResourceSelectorRequirement) []LimitedResource {
		var limited []LimitedResource
		for _, s := range all {
			limited = append(limited,
				LimitedResource{Resource: "pods", MatchScopes: []corev1.ScopedResourceSelectorRequirement{s}})
		}
		return limited
	}
	anyClass, best := requirement(priorityClass, exists), requirement(bestEffort, exists)
	cluster := requirement(priorityClass, in, "cluster-services")
	either := requirement(priorityClass, in, "another-priorityclass-name", "cluster-services")
	fake, services, another := newPod(ofClass("fake-priority")), newPod(ofClass("cluster-services")),
		newPod(ofClass("another-priorityclass-name"))
	burst := func(class string) *corev1.Pod {
		return newPod(ofClass(class), with(box("c", "cpu=100m,memory=1Gi", "")))
	}
	// Quotas that limit nothing cover their scopes, too.
	ofAny, ofCluster := newQuota("any", "", "", selecting(priorityClass, exists)),
		newQuota("cluster", "", "", selecting(priorityClass, in, "cluster-services"))
	ofAnother := newQuota("another", "", "", selecting(priorityClass, in, "another-priorityclass-name"))
	ofBest := newQuota("best", "pods=5", "pods=3", scoped(bestEffort))
	const message = "insufficient quota to match these scopes: "
	for name, test := range map[string]admitTest{
		"covered by the class": {pods, nil, fake, quotas(ofAny), scopes(anyClass), "", ""},
		"no class":             {pods, nil, newPod(), nil, scopes(anyClass), "", ""},
		"class, not covered": {pods, nil, fake, nil, scopes(anyClass), "", message +
			"[{PriorityClass Exists []}]"},
		"best effort, not covered": {pods, nil, fake, nil, scopes(best), "", message +
			"[{BestEffort Exists []}]"},
		"best effort, covered": {pods, nil, fake, quotas(ofBest), scopes(best), "best: pods=4", ""},
		"two scopes, in none":  {pods, nil, burst("fake-priority"), nil, scopes(best, cluster), "", ""},
		"two scopes, in the first": {pods, nil, fake, nil, scopes(best, cluster), "", message +
			"[{BestEffort Exists []}]"},
		"two scopes, in the second": {pods, nil, burst("cluster-services"), nil, scopes(best, cluster), "",
			message + "[{PriorityClass In [cluster-services]}]"},
		"two scopes, in both": {pods, nil, services, nil, scopes(best, cluster), "", message +
			"[{BestEffort Exists []} {PriorityClass In [cluster-services]}]"},
		"two scopes, the first covered": {pods, nil, services, quotas(ofBest), scopes(best, cluster), "", message +
			"[{PriorityClass In [cluster-services]}]"},
		"two scopes, the second covered": {pods, nil, services, quotas(ofCluster), scopes(best, cluster), "", message +
			"[{BestEffort Exists []}]"},
		"two scopes, both covered": {pods, nil, services, quotas(ofBest, ofCluster), scopes(best, cluster),
			"best: pods=4", ""},
		"not limited": {pods, nil, fake, nil, nil, "", ""},
		"covered, but exceeded": {
			pods, nil, newPod(ofClass("fake-priority"), with(box("c", "cpu=3,memory=20Gi", ""))),
			quotas(newQuota("quota", "memory=10Gi", "memory=1Gi", selecting(priorityClass, exists))), scopes(anyClass),
			"", "exceeded quota: quota, requested: memory=20Gi, used: memory=1Gi, limited: memory=10Gi",
		},
		"another class than is limited": {pods, nil, fake, quotas(ofCluster), scopes(cluster), "", ""},
		"covered by one of the values":  {pods, nil, services, quotas(ofCluster), scopes(either), "", ""},
		"covered for another class": {pods, nil, services, quotas(ofAnother), scopes(either), "", message +
			"[{PriorityClass In [another-priorityclass-name cluster-services]}]"},
		"covered for this class": {pods, nil, another, quotas(ofAnother), scopes(either), "", ""},
		"covered by Exists":      {pods, nil, services, quotas(ofAny), scopes(either), "", ""},
		"update that uses no more": {pods, burst("fake-priority"), newPod(ofClass("fake-priority")), nil,
			scopes(anyClass), "", ""},
		"update into a quota": {pods, newPod(), newPod(deadline(1)),
			quotas(newQuota("t", "pods=1", "pods=0", scoped(terminating))), scopes(best), "", message +
				"[{BestEffort Exists []}]"},
		"update into a quota of another sort": {pods, newPod(), newPod(deadline(1)),
			quotas(newQuota("t", "services=1", "services=0", scoped(terminating))), scopes(best), "", ""},
		"rule for another resource": {pods, nil, fake, nil,
			[]LimitedResource{{Resource: "services", MatchScopes: scopes(anyClass)[0].MatchScopes}}, "", message +
				"[{PriorityClass Exists []}]"},
	} {
		t.Run(name, test.run)
	}
}
