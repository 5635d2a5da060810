// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"strings"
	"testing"

	"gatehouse.dev/apiserver/pki"
)

// gateFlags enable the feature gates of some plugins, and the kinds that these act on.
var gateFlags = []string{
	"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true," +
		"PodGroupPreemptionPolicy=true,ClusterTrustBundle=true",
	"--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true,certificates.k8s.io/v1beta1=true",
}

// gateRequests returns requests about plugins behind feature gates, and some whose answers depend
// on other objects: a volume's claim, a pod's node, an object's owner.
func gateRequests(t *testing.T) []request {
	t.Helper()
	const (
		space         = "/api/v1/namespaces/gated"
		scheduling    = "/apis/scheduling.k8s.io/v1beta1/namespaces/gated/"
		newScheduling = "/apis/scheduling.k8s.io/v1alpha3/namespaces/gated/"
		jobs          = "/apis/batch/v1/namespaces/gated/jobs"
		bundles       = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
		rbac          = "/apis/rbac.authorization.k8s.io/v1/"
		by            = "joe keepers"
		right         = "[OwnerReferencesPermissionEnforcement][owners] names the right that is missing"
	)
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	bundle := func(name, signer string) string {
		return "kind: ClusterTrustBundle\napiVersion: certificates.k8s.io/v1beta1\nmetadata: {name: '" + name +
			"'}\nspec:\n" + signer + "  trustBundle: |" + strings.ReplaceAll("\n"+string(authority.CertPEM()), "\n",
			"\n    ")
	}
	const signed = "  signerName: example.com/s\n"
	group := func(name, spec string) string {
		return "{kind: PodGroup, apiVersion: scheduling.k8s.io/v1beta1, metadata: {name: " + name + "}, spec: {" +
			spec + "}}"
	}
	of := func(workload, template string) string {
		return "workloadRef: {workloadName: " + workload + ", templateName: " + template +
			"}, schedulingPolicy: {basic: {}}"
	}
	composite := func(spec string) string {
		return `{kind: CompositePodGroup, apiVersion: scheduling.k8s.io/v1alpha3, metadata: {name: c},
spec: {workloadRef: {workloadName: w, templateName: a}, schedulingPolicy: {basic: {}}, ` + spec + "}}"
	}
	job := func(name, group string) string {
		return "{kind: Job, apiVersion: batch/v1, metadata: {name: " + name + `}, spec: {parallelism: 2, template: {
spec: {schedulingGroup: {podGroupName: ` + group + "}, containers: [{name: c, image: i}], restartPolicy: Never}}}}"
	}
	owned := func(name, more string) string {
		return "{kind: ConfigMap, apiVersion: v1, metadata: {name: " + name + `, ownerReferences: [
{apiVersion: v1, kind: ConfigMap, name: o, uid: u` + more + "}]}}"
	}
	until := func(r request, text string) request {
		r.path += dryRun
		r.until = text
		return r
	}
	return []request{
		create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: gated}}"),
		create(space+"/serviceaccounts", "{kind: ServiceAccount, apiVersion: v1, metadata: {name: default}}"),
		create(rbac+"clusterroles", `{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1,
metadata: {name: keepers}, rules: [{apiGroups: [certificates.k8s.io], resources: [clustertrustbundles], verbs: ["*"]},
{apiGroups: [""], resources: [configmaps], verbs: [create, patch, update, get]}]}`),
		create(rbac+"clusterrolebindings", `{kind: ClusterRoleBinding, apiVersion: rbac.authorization.k8s.io/v1,
metadata: {name: keepers}, roleRef: {kind: ClusterRole, name: keepers, apiGroup: rbac.authorization.k8s.io},
subjects: [{kind: Group, name: keepers, apiGroup: rbac.authorization.k8s.io}]}`),

		create(scheduling+"podgroups", group("g", of("w", "a"))),
		create(scheduling+"workloads", `{kind: Workload, apiVersion: scheduling.k8s.io/v1beta1, metadata: {name: w},
spec: {podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}}`),
		create(scheduling+"podgroups", group("g", of("w", "a"))),
		create(scheduling+"podgroups", group("h", of("w", "b"))),
		create(scheduling+"podgroups"+dryRun, group("h", "schedulingPolicy: {basic: {}}, priorityClassName: none")),
		create(scheduling+"podgroups"+dryRun, group("h", "schedulingPolicy: {basic: {}}, priorityClassName: high")),
		create(scheduling+"podgroups"+dryRun, group("h", "schedulingPolicy: {basic: {}}, priority: 7")),
		create("/apis/scheduling.k8s.io/v1/priorityclasses", `{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1,
metadata: {name: patient}, value: 7, preemptionPolicy: Never}`),
		until(create(scheduling+"podgroups", group("h", "schedulingPolicy: {basic: {}}, priorityClassName: patient")),
			"Never"),
		create(scheduling+"podgroups"+dryRun, group("h", "schedulingPolicy: {basic: {}}, priorityClassName: patient, "+
			"preemptionPolicy: PreemptLowerPriority")),
		create(newScheduling+"podgroups"+dryRun, strings.Replace(group("h", "schedulingPolicy: {basic: {}}, "+
			"priorityClassName: patient"), "v1beta1", "v1alpha3", 1)),
		create(newScheduling+"compositepodgroups"+dryRun, composite("priorityClassName: patient")),
		create(newScheduling+"compositepodgroups"+dryRun, composite("priorityClassName: none")),
		create(newScheduling+"compositepodgroups"+dryRun, composite("priorityClassName: patient, priority: 8")),
		create(newScheduling+"compositepodgroups"+dryRun,
			composite("priorityClassName: patient, preemptionPolicy: PreemptLowerPriority")),
		create(newScheduling+"compositepodgroups"+dryRun, composite("")),
		create(scheduling+"podgroups", group("gang", "schedulingPolicy: {gang: {minCount: 2}}")),
		create(jobs, job("gang", "gang")), create(jobs, job("free", "g")),
		patch("merge", jobs+"/gang", "spec: {parallelism: 3}"),
		patch("merge", jobs+"/gang", "spec: {suspend: true}"), patch("merge", jobs+"/free", "spec: {parallelism: 3}"),
		deleteRequest(scheduling+"podgroups/g", ""), get(scheduling + "podgroups/g"),

		until(create(bundles, bundle("example.com:s:b", signed)).asUser(by), "not permitted to attest"),
		create(bundles, bundle("anybodys", "")).asUser(by), create(bundles, bundle("example.com:s:b", signed)),
		patch("merge", bundles+"/example.com:s:b", "metadata: {labels: {l: '1'}}").asUser(by),
		patch("merge", bundles+"/example.com:s:b", "metadata: {finalizers: [example.com/f]}").asUser(by),

		until(create(space+"/configmaps", owned("c", ", blockOwnerDeletion: true")).asUser(by),
			"cannot set blockOwnerDeletion").withDifference(right),
		create(space+"/configmaps", owned("c", "")).asUser(by), create(space+"/configmaps", owned("b", "")),
		patch("merge", space+"/configmaps/b", "metadata: {ownerReferences: null}").asUser(by).withDifference(right),
		patch("merge", space+"/configmaps/b", "metadata: {labels: {l: '1'}}").asUser(by),

		create("/api/v1/nodes", `{kind: Node, apiVersion: v1, metadata: {name: small,
labels: {kubernetes.io/os: linux, topology.kubernetes.io/region: r}}, status: {allocatable: {cpu: '2', memory: 1Gi}}}`),
		create(space+"/pods", `{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {nodeName: small,
initContainers: [{name: i, image: i, resources: {requests: {cpu: '1'}}}],
containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}}`),
		until(patch("strategic", space+"/pods/p/resize",
			"spec: {containers: [{name: c, resources: {requests: {cpu: '3'}}}]}"), "NodeCapacity"),
		until(patch("strategic", space+"/pods/p/resize",
			"spec: {initContainers: [{name: i, resources: {requests: {cpu: '2'}}}]}"), "pod update requires features"),
		patch("strategic", space+"/pods/p/resize",
			"spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}"),

		create("/apis/storage.k8s.io/v1/storageclasses",
			"{kind: StorageClass, apiVersion: storage.k8s.io/v1, metadata: {name: fixed}, provisioner: p}"),
		create(space+"/persistentvolumeclaims", `{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: c},
spec: {storageClassName: fixed, volumeName: v, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`),
		patch("merge", space+"/persistentvolumeclaims/c/status", "status: {phase: Bound}"),
		until(patch("merge", space+"/persistentvolumeclaims/c", "spec: {resources: {requests: {storage: 2Gi}}}"),
			"only dynamically provisioned pvc can be resized"),

		create(space+"/pods", `{kind: Pod, apiVersion: v1, metadata: {name: privileged}, spec: {
containers: [{name: c, image: i, securityContext: {privileged: true}}]}}`),
		create(space+"/pods/privileged/exec?command=a", ""), create(space+"/pods/privileged/attach", ""),
		create(space+"/pods/p/attach?container=none", ""),
	}
}
