// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"
	"strings"
)

const (
	namespaces   = "/api/v1/namespaces"
	pods         = "/api/v1/namespaces/d/pods"
	dryRun       = "?dryRun=All"
	applyOptions = "?fieldManager=t&force=true"
)

// requests returns all requests, in order: the later ones need objects that the earlier ones
// create.
func requests() []request {
	return slices.Concat(clusterRequests, podRequests(), workloadRequests(), claimRequests(), serviceRequests(),
		certificateRequests, kubeletRequests,
		optionalPluginRequests(), validatingPolicyRequests(), mutatingPolicyRequests(), namespaceRequests, eventRequests)
}

// emulatedRequests returns the requests that all emulated versions serve.
func emulatedRequests() []request {
	return slices.Concat(lastingRequests(), validatingPolicyRequests(), namespaceRequests)
}

// lastingRequests returns requests that all emulated versions serve, without those of policies and
// the last ones. Pods have labels of their node's topology since 1.35.
func lastingRequests() []request {
	all := slices.Concat(clusterRequests, podRequests(), workloadRequests(), claimRequests(), serviceRequests(),
		certificateRequests, kubeletRequests, optionalPluginRequests())
	return slices.DeleteFunc(all, func(r request) bool { return strings.HasPrefix(r.until, "topology.kubernetes.io/") })
}

func create(path, body string) request { return request{verb: "POST", path: path, body: body} }

// patch sends a patch of a type: merge, strategic, json, or apply.
func patch(kind, path, body string) request {
	return request{verb: "PATCH", path: path, kind: kind, body: body}
}

// deleteRequest deletes something, with options that may be empty.
func deleteRequest(path, options string) request {
	return request{verb: "DELETE", path: path, body: options}
}

func get(path string) request { return request{verb: "GET", path: path} }

// asUser sends the same request as a user: a name, and groups after it.
func (r request) asUser(who string) request {
	r.as = who
	return r
}

// withDifference expects different answers, as docs/differences.md says.
func (r request) withDifference(documented string) request {
	r.difference = documented
	return r
}

// clusterRequests create what the other requests need.
var clusterRequests = []request{
	create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: d}}"),
	create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: d}}"),
	create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: D_}}"),
	create(namespaces, "{kind: Namespace, apiVersion: v1, metadata: {name: limited}}"),
	create(namespaces, `{kind: Namespace, apiVersion: v1, metadata: {name: secured,
labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}}`),
	create(namespaces, `{kind: Namespace, apiVersion: v1, metadata: {name: wrong,
labels: {pod-security.kubernetes.io/enforce: strict}}}`),
	create(pods, "{kind: Pod, apiVersion: v1, metadata: {name: early}, spec: {containers: [{name: c, image: i}]}}"),
	create("/api/v1/namespaces/d/serviceaccounts", "{kind: ServiceAccount, apiVersion: v1, metadata: {name: default}}"),
	create("/api/v1/namespaces/secured/serviceaccounts",
		"{kind: ServiceAccount, apiVersion: v1, metadata: {name: default}}"),
	create("/api/v1/namespaces/limited/serviceaccounts",
		"{kind: ServiceAccount, apiVersion: v1, metadata: {name: default}}"),
	create("/api/v1/namespaces/d/serviceaccounts", `{kind: ServiceAccount, apiVersion: v1, metadata: {name: quiet},
automountServiceAccountToken: false, imagePullSecrets: [{name: s}]}`),
	create("/apis/node.k8s.io/v1/runtimeclasses", `{kind: RuntimeClass, apiVersion: node.k8s.io/v1,
metadata: {name: vm}, handler: vm, overhead: {podFixed: {cpu: 100m, memory: 1Mi}},
scheduling: {nodeSelector: {vm: "yes"}, tolerations: [{key: vm, operator: Exists}]}}`),
	create("/apis/scheduling.k8s.io/v1/priorityclasses",
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 1000}"),
	create("/apis/scheduling.k8s.io/v1/priorityclasses",
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: too-high}, value: 2000000001}"),
	create("/apis/scheduling.k8s.io/v1/priorityclasses",
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: system-mine}, value: 1}"),
	create("/apis/storage.k8s.io/v1/storageclasses", `{kind: StorageClass, apiVersion: storage.k8s.io/v1,
metadata: {name: usual, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}, provisioner: p}`),
	create("/apis/storage.k8s.io/v1/storageclasses", `{kind: StorageClass, apiVersion: storage.k8s.io/v1,
metadata: {name: grows}, provisioner: p, allowVolumeExpansion: true}`),
	create("/apis/networking.k8s.io/v1/ingressclasses", `{kind: IngressClass, apiVersion: networking.k8s.io/v1,
metadata: {name: usual, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: c/c}}`),
	create("/api/v1/nodes", `{kind: Node, apiVersion: v1, metadata: {name: a, labels: {topology.kubernetes.io/zone: z}},
status: {allocatable: {cpu: "2", memory: 1Gi}}}`),
	create("/api/v1/namespaces/limited/limitranges", `{kind: LimitRange, apiVersion: v1, metadata: {name: l},
spec: {limits: [{type: Container, max: {cpu: "1"}, default: {cpu: 500m}, defaultRequest: {cpu: 100m}}]}}`),
	create("/api/v1/namespaces/limited/resourcequotas", `{kind: ResourceQuota, apiVersion: v1, metadata: {name: q},
spec: {hard: {pods: "0", services.loadbalancers: "0"}}}`),
	// In Kubernetes a controller says what is used, before anything is admitted.
	patch("merge", "/api/v1/namespaces/limited/resourcequotas/q/status", `status: {
hard: {pods: "0", services.loadbalancers: "0"}, used: {pods: "0", services.loadbalancers: "0"}}`).
		withDifference("knows a new quota's usage when it is created"),
	{verb: "POST", path: "/api/v1/namespaces/limited/services" + dryRun, until: "exceeded quota",
		body: "{kind: Service, apiVersion: v1, metadata: {name: x}, " +
			"spec: {type: LoadBalancer, ports: [{port: 80}]}}"},
}

// shapes are specs of pods, right and wrong. Each is tried in several namespaces, and changed in
// all ways in the one in which it is created.
var shapes = []string{
	`containers: [{name: c, image: i}]`,
	`containers: []`,
	`containers: [{name: C_, image: i}]`,
	`containers: [{name: c}]`,
	`containers: [{name: c, image: i, resources: {requests: {cpu: "1"}, limits: {cpu: "2", memory: 1Gi}}}]`,
	`containers: [{name: c, image: i, resources: {requests: {cpu: "3"}, limits: {cpu: "2"}}}]`,
	`containers: [{name: c, image: i, resources: {limits: {example.com/gpu: "1"}}}]`,
	`containers: [{name: c, image: i, securityContext: {privileged: true}}]`,
	`containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}]}]`,
	`hostNetwork: true, containers: [{name: c, image: i}]`,
	`volumes: [{name: v, hostPath: {path: /}}], containers: [{name: c, image: i}]`,
	`volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]`,
	`initContainers: [{name: i, image: i, restartPolicy: Always}], containers: [{name: c, image: i}]`,
	`runtimeClassName: vm, containers: [{name: c, image: i}]`,
	`runtimeClassName: vm, nodeSelector: {vm: "no"}, containers: [{name: c, image: i}]`,
	`runtimeClassName: vm, overhead: {cpu: 1m}, containers: [{name: c, image: i}]`,
	`runtimeClassName: vm, tolerations: [{key: vm, operator: Equal, value: x}, {operator: Exists}],
containers: [{name: c, image: i}]`,
	`runtimeClassName: none, containers: [{name: c, image: i}]`,
	`runtimeClassName: N_, containers: [{name: c, image: i}]`,
	`overhead: {cpu: 1m}, containers: [{name: c, image: i}]`,
	`priorityClassName: high, containers: [{name: c, image: i}]`,
	`priorityClassName: none, containers: [{name: c, image: i}]`,
	`priority: 5, containers: [{name: c, image: i}]`,
	`priorityClassName: system-node-critical, preemptionPolicy: Never, containers: [{name: c, image: i}]`,
	`serviceAccountName: quiet, containers: [{name: c, image: i}]`,
	`serviceAccountName: none, containers: [{name: c, image: i}]`,
	`automountServiceAccountToken: false, containers: [{name: c, image: i}]`,
	`nodeName: a, containers: [{name: c, image: i}]`,
	`nodeName: none, containers: [{name: c, image: i}]`,
	`tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}], containers: [{name: c, image: i}]`,
	`tolerations: [{key: a, operator: Like}], containers: [{name: c, image: i}]`,
	`securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: i,
securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`,
	`resources: {requests: {cpu: "1"}}, containers: [{name: c, image: i}]`,
}

func podRequests() []request {
	all := []request{
		{verb: "POST", path: pods + dryRun, until: `"vm": "yes"`,
			body: "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {runtimeClassName: vm, " +
				shapes[0] + "}}"},
		{verb: "POST", path: pods + dryRun, until: `topology.kubernetes.io/zone`,
			body: "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {nodeName: a, " +
				shapes[0] + "}}"},
	}
	for i, shape := range shapes {
		name := fmt.Sprint("p", i)
		pod := "{kind: Pod, apiVersion: v1, metadata: {name: " + name + "}, spec: {" + shape + "}}"
		one := pods + "/" + name
		all = append(all,
			create(pods+dryRun, pod), create(pods, pod), create(pods, pod),
			create("/api/v1/namespaces/secured/pods"+dryRun, pod),
			create("/api/v1/namespaces/limited/pods"+dryRun, pod),
			patch("merge", one, `metadata: {labels: {l: "1"}}`),
			patch("strategic", one, `spec: {containers: [{name: c, image: j}]}`),
			patch("strategic", one,
				`spec: {nodeSelector: {a: b}, tolerations: [{key: n, operator: Exists}]}`),
			patch("json", one, `[{op: replace, path: /spec/containers/0/image, value: k}]`),
			patch("strategic", one+"/resize",
				`spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}`),
			patch("merge", one+"/status", `status: {phase: Running}`),
			patch("strategic", one+"/ephemeralcontainers",
				`spec: {ephemeralContainers: [{name: e, image: i}]}`),
			patch("apply", one+applyOptions,
				"{kind: Pod, apiVersion: v1, metadata: {name: "+name+", labels: {a: b}}}"),
			deleteRequest(one+dryRun, ""),
			create(one+"/eviction"+dryRun, "{kind: Eviction, apiVersion: policy/v1, metadata: {name: "+name+"}}"),
		)
	}
	all = append(all, create(pods+dryRun, "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {"+shapes[0]+
		"}, status: {qosClass: Burstable}}").withDifference("by a pod's resources, not by the QoS class that a client sends"))
	unbound := "{kind: Binding, apiVersion: v1, metadata: {name: p0}, target: {kind: Node, name: a}}"
	return append(all, create(pods+"/p0/binding", unbound), get(pods+"/p0"),
		create(pods+"/p0/binding", unbound), deleteRequest(pods+"/p4", "{gracePeriodSeconds: 0}"),
		get(pods+"/p4"), deleteRequest(pods+"/none", ""),
		create("/api/v1/namespaces/none/pods",
			"{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {"+shapes[0]+"}}"),
		create("/api/v1/namespaces/limited/pods",
			"{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {"+shapes[0]+"}}"))
}

func workloadRequests() []request {
	var all []request
	for _, kind := range []string{"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"} {
		more := ""
		if kind == "StatefulSet" {
			more = "serviceName: s, "
		}
		path := "/apis/apps/v1/namespaces/d/" + strings.ToLower(kind) + "s"
		for i, shape := range []string{shapes[0], shapes[1], shapes[7], shapes[13]} {
			name := fmt.Sprint("w", i)
			workload := "{kind: " + kind + ", apiVersion: apps/v1, metadata: {name: " + name + "}, spec: {" + more +
				"selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + shape + "}}}}"
			all = append(all, create(path+dryRun, workload), create(path, workload),
				create(strings.Replace(path, "/d/", "/secured/", 1)+dryRun, workload),
				patch("merge", path+"/"+name, "spec: {template: {metadata: {labels: {a: c}}}}"),
				patch("strategic", path+"/"+name, "metadata: {labels: {l: '1'}}"),
				deleteRequest(path+"/"+name, "{propagationPolicy: Background}"))
		}
	}
	return all
}

func claimRequests() []request {
	const claims = "/api/v1/namespaces/d/persistentvolumeclaims"
	claim := func(name, spec string) string {
		return "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: " + name + "}, spec: {" + spec +
			" accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
	}
	more := "spec: {resources: {requests: {storage: 2Gi}}}"
	return []request{
		{verb: "POST", path: claims + dryRun, body: claim("x", ""), until: `"usual"`},
		create(claims, claim("a", "")), create(claims, claim("b", "storageClassName: grows, volumeName: v,")),
		create(claims, claim("c", "storageClassName: '',")), create(claims, claim("d", "storageClassName: N_,")),
		patch("merge", claims+"/a", more),
		patch("merge", claims+"/b", more),
		patch("merge", claims+"/b/status", "status: {phase: Bound}"),
		patch("merge", claims+"/b", more),
		patch("merge", claims+"/b", "spec: {resources: {requests: {storage: 1Gi}}}"),
		deleteRequest(claims+"/a", ""), get(claims + "/a"),
	}
}

func serviceRequests() []request {
	const services, ingresses = "/api/v1/namespaces/d/services", "/apis/networking.k8s.io/v1/namespaces/d/ingresses"
	ingress := func(name, spec string) string {
		return "{kind: Ingress, apiVersion: networking.k8s.io/v1, metadata: {name: " + name + "}, spec: {" + spec +
			"defaultBackend: {service: {name: s, port: {number: 80}}}}}"
	}
	return []request{
		create(services, "{kind: Service, apiVersion: v1, metadata: {name: s}, spec: {ports: [{port: 80}]}}"),
		create(services, "{kind: Service, apiVersion: v1, metadata: {name: e}, "+
			"spec: {ports: [{port: 80}], externalIPs: [192.0.2.1]}}"),
		create(services, "{kind: Service, apiVersion: v1, metadata: {name: n}, spec: {}}"),
		create(services, "{kind: Service, apiVersion: v1, metadata: {name: x}, "+
			"spec: {type: ExternalName, externalName: a.b}}"),
		create("/api/v1/namespaces/limited/services",
			"{kind: Service, apiVersion: v1, metadata: {name: s}, spec: {type: LoadBalancer, ports: [{port: 80}]}}"),
		update("/api/v1/namespaces/limited/services/s/status"+dryRun,
			"{kind: Service, apiVersion: v1, metadata: {name: s}, spec: {type: LoadBalancer, ports: [{port: 80}]}}").
			withDifference("A Service that an update of its status creates needs room in a quota"),
		patch("merge", services+"/s", "spec: {externalIPs: [192.0.2.1]}"),
		patch("merge", services+"/s", "spec: {sessionAffinity: ClientIP}"),
		deleteRequest(services+"/s", ""),
		{verb: "POST", path: ingresses + dryRun, body: ingress("x", ""), until: `"usual"`},
		create(ingresses, ingress("a", "")), create(ingresses, ingress("b", "ingressClassName: other, ")),
		create(ingresses, "{kind: Ingress, apiVersion: networking.k8s.io/v1, metadata: {name: c}, spec: {}}"),
	}
}

// csr requests a certificate of the group system:masters.
const csr = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHbk1Gc0NBUUF3S0RFWE1CVUdBMVVFQ2hNT2Mz" +
	"bHpkR1Z0T20xaGMzUmxjbk14RFRBTEJnTlZCQU1UQkdwaApibVV3S2pBRkJnTXJaWEFESVFDbnN6dCtYWEYxenpO" +
	"dEhIaHFlY2paYXdNdjh2SUFqVW50WTU3bHdQTllyNkFBCk1BVUdBeXRsY0FOQkFLV2QrM21ueXc0dVdabUUxeHNB" +
	"RFJPaWFUbnhrNjZYTC9kanBaQllybjYrVGhxQ3pEK3oKTzZkRzhTbE9oS1FlNGdxS1RvOGZ4MkVZOHFKejRha2tS" +
	"UTA9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="

const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func csrObject(name, signer, content string) string {
	return "{kind: CertificateSigningRequest, apiVersion: certificates.k8s.io/v1, metadata: {name: " + name +
		"}, spec: {signerName: " + signer + ", usages: [client auth], request: " + content + "}}"
}

// csrWriter may write requests for certificates of any signer.
const csrWriter = "jane writers"

var certificateRequests = []request{
	create("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{kind: ClusterRole,
apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: writers}, rules: [{apiGroups: [certificates.k8s.io],
resources: [certificatesigningrequests, certificatesigningrequests/approval, certificatesigningrequests/status],
verbs: ["*"]}]}`),
	create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{kind: ClusterRoleBinding,
apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: writers}, roleRef: {kind: ClusterRole, name: writers,
apiGroup: rbac.authorization.k8s.io}, subjects: [{kind: Group, name: writers, apiGroup: rbac.authorization.k8s.io}]}`),
	{verb: "POST", path: csrs + dryRun, body: csrObject("x", "example.com/a", csr), as: csrWriter, until: "201 "},
	create(csrs, csrObject("masters", "kubernetes.io/kube-apiserver-client", csr)),
	create(csrs, csrObject("unreadable", "kubernetes.io/kube-apiserver-client", "bm8=")),
	create(csrs, csrObject("other", "example.com/a", csr)).asUser(csrWriter),
	patch("merge", csrs+"/other/approval", "status: {conditions: [{type: Approved, status: 'True'}]}").asUser(csrWriter),
	patch("merge", csrs+"/other/status", "status: {conditions: [{type: Failed, status: 'True'}]}").asUser(csrWriter),
	patch("merge", csrs+"/other/status", "metadata: {labels: {l: '1'}}").asUser(csrWriter),
	patch("merge", csrs+"/other", "metadata: {labels: {l: '2'}}").asUser(csrWriter),
	patch("merge", csrs+"/other/approval", "status: {conditions: [{type: Approved, status: 'True'}]}"),
	deleteRequest(csrs+"/other", "").asUser(csrWriter),
}

// kubelet is the kubelet of node a.
const kubelet = "system:node:a system:nodes system:authenticated"

var kubeletRequests = []request{
	create("/api/v1/nodes", "{kind: Node, apiVersion: v1, metadata: {name: b}}").asUser(kubelet),
	patch("merge", "/api/v1/nodes/a", "metadata: {labels: {node-restriction.kubernetes.io/x: yes-indeed}}").asUser(kubelet),
	patch("merge", "/api/v1/nodes/a", "metadata: {labels: {kubernetes.io/os: linux}}").asUser(kubelet),
	patch("merge", "/api/v1/nodes/a", "spec: {taints: [{key: k, effect: NoSchedule}]}").asUser(kubelet),
	patch("merge", "/api/v1/nodes/a/status", "status: {capacity: {cpu: '4'}}").asUser(kubelet),
	patch("merge", "/api/v1/nodes/b/status", "status: {capacity: {cpu: '4'}}").asUser(kubelet),
	create(pods, "{kind: Pod, apiVersion: v1, metadata: {name: k}, spec: {nodeName: a, "+shapes[0]+"}}").asUser(kubelet),
	create(pods, `{kind: Pod, apiVersion: v1, metadata: {name: m, annotations: {kubernetes.io/config.mirror: h}},
spec: {nodeName: a, containers: [{name: c, image: i}]}}`).asUser(kubelet),
	create(pods, `{kind: Pod, apiVersion: v1, metadata: {name: m, annotations: {kubernetes.io/config.mirror: h}},
spec: {nodeName: b, containers: [{name: c, image: i}]}}`).asUser(kubelet),
	deleteRequest(pods+"/p1", "").asUser(kubelet),
	patch("merge", pods+"/p1/status", "status: {phase: Failed}").asUser(kubelet),
}

var namespaceRequests = []request{
	deleteRequest(namespaces+"/default", ""),
	deleteRequest(namespaces+"/kube-system", ""),
	patch("merge", namespaces+"/d", "metadata: {labels: {pod-security.kubernetes.io/enforce: baseline}}"),
	patch("merge", namespaces+"/d", "metadata: {labels: {pod-security.kubernetes.io/enforce: none}}"),
	patch("merge", namespaces+"/d", "metadata: {labels: {pod-security.kubernetes.io/warn-version: v9}}"),
	deleteRequest(namespaces+"/limited", ""),
	create("/api/v1/namespaces/limited/configmaps", "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"),
	create("/api/v1/namespaces/none/configmaps", "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"),
	create("/api/v1/namespaces/d/configmaps",
		"{kind: ConfigMap, apiVersion: v1, metadata: {generateName: generated-}}"),
}

var eventRequests = []request{
	create("/api/v1/namespaces/d/events", `{kind: Event, apiVersion: v1, metadata: {name: e},
involvedObject: {kind: Pod, namespace: d, name: p}}`),
	create("/api/v1/namespaces/d/events", `{kind: Event, apiVersion: v1, metadata: {name: f},
involvedObject: {kind: Pod, namespace: other, name: p}}`),
	create("/apis/events.k8s.io/v1/namespaces/d/events", `{kind: Event, apiVersion: events.k8s.io/v1,
metadata: {name: g}, eventTime: "2026-01-01T00:00:00.000000Z", reportingController: a/b, reportingInstance: i,
action: A, reason: R, type: Normal, regarding: {kind: Pod, namespace: d, name: p}}`),
	create("/apis/events.k8s.io/v1/namespaces/d/events", `{kind: Event, apiVersion: events.k8s.io/v1,
metadata: {name: h}, regarding: {kind: Pod, namespace: d, name: p}}`),
}
