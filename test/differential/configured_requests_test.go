// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"
	"strings"
)

// configuredRequests returns requests whose answers depend on plugins' configuration.
func configuredRequests() []request {
	return slices.Concat(configurationRequests(), provisionRequests())
}

// configurationRequests returns the configuredRequests that don't need NamespaceAutoProvision.
func configurationRequests() []request {
	return slices.Concat(configuredNamespaces(), imageRequests(), nodeSelectorRequests(), tolerationRequests(),
		podSecurityRequests(), limitedResourceRequests())
}

// podIn creates a pod in a namespace, as a dry run.
func podIn(namespace, spec string) request {
	return create("/api/v1/namespaces/"+namespace+"/pods"+dryRun, `{kind: Pod, apiVersion: v1, metadata: {name: x,
annotations: {a.image-policy.k8s.io/b: c, d: e}}, spec: {`+spec+"}}")
}

const goodContainer = "containers: [{name: c, image: good}]"

// configuredNamespaces creates namespaces that the configuration names, or that have a plugin's
// annotation. The last request waits for a cache.
func configuredNamespaces() []request {
	requests := []request{}
	for _, space := range [][2]string{
		{"whitelisted", ""}, {"bound", "scheduler.alpha.kubernetes.io/node-selector: zone=b"}, {"free", ""},
		{"strict", ""}, {"own-whitelist",
			`scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{"operator":"Exists"}]'`},
		{"own-default", `scheduler.alpha.kubernetes.io/defaultTolerations: '[{"key":"allowed","operator":"Exists"}]'`},
		{"nothing-allowed", `scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[]'`},
	} {
		labels := ""
		if space[0] == "strict" {
			labels = "pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: v1.22"
		}
		requests = append(requests, create(namespaces,
			fmt.Sprintf(`{kind: Namespace, apiVersion: v1, metadata: {name: %s,
labels: {%s}, annotations: {%s}}}`, space[0], labels, space[1])),
			create("/api/v1/namespaces/"+space[0]+"/serviceaccounts",
				"{kind: ServiceAccount, apiVersion: v1, metadata: {name: default}}"))
	}
	ready := podIn("d", "runtimeClassName: vm, "+goodContainer)
	ready.until = `"vm": "yes"`
	return append(requests, ready)
}

func imageRequests() []request {
	const pod = pods + "/images"
	requests := []request{
		create(pods, "{kind: Pod, apiVersion: v1, metadata: {name: images}, spec: {"+goodContainer+"}}"),
		patch("strategic", pod, "spec: {containers: [{name: c, image: bad}]}"),
		patch("strategic", pod, "spec: {containers: [{name: c, image: worse}]}"),
		patch("strategic", pod+"/ephemeralcontainers", "spec: {ephemeralContainers: [{name: e, image: bad}]}"),
		patch("strategic", pod+"/ephemeralcontainers", "spec: {ephemeralContainers: [{name: e, image: good}]}"),
		patch("merge", pod+"/status", "status: {phase: Running}"),
		patch("merge", pod, "metadata: {labels: {l: '1'}}"),
		create("/apis/apps/v1/namespaces/d/deployments"+dryRun,
			`{kind: Deployment, apiVersion: apps/v1, metadata: {name: x},
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: bad}]}}}}`),
		deleteRequest(pod, "{gracePeriodSeconds: 0}"),
	}
	for _, image := range []string{"good", "bad", "worse"} {
		requests = append(requests, podIn("d", "containers: [{name: c, image: "+image+"}]"),
			podIn("d", "initContainers: [{name: i, image: "+image+"}], "+goodContainer),
			podIn("free", "containers: [{name: b, image: good}, {name: c, image: "+image+"}]"))
	}
	return append(requests, podIn("d", "containers: [{name: c, image: broken}]").
		withDifference("says in every refusal that the backend failed where it did"))
}

func nodeSelectorRequests() []request {
	requests := []request{}
	for _, namespace := range []string{"d", "whitelisted", "bound"} {
		for _, selector := range []string{"", "zone: usual", "zone: a", "zone: b", "disk: ssd", "zone: a, disk: ssd",
			"other: x"} {
			requests = append(requests, podIn(namespace, "nodeSelector: {"+selector+"}, "+goodContainer))
		}
	}
	return requests
}

func tolerationRequests() []request {
	requests := []request{}
	for _, namespace := range []string{"d", "own-whitelist", "own-default", "nothing-allowed"} {
		for _, tolerations := range []string{"", "{key: given, operator: Exists, effect: NoSchedule}",
			"{key: allowed, operator: Exists}", "{key: allowed, value: x}", "{key: forbidden, operator: Exists}",
			"{operator: Exists}"} {
			r := podIn(namespace, "tolerations: ["+tolerations+"], "+goodContainer)
			covered := tolerations == "" || strings.Contains(tolerations, "allowed") ||
				strings.Contains(tolerations, "given")
			if (namespace == "d" || namespace == "own-default") && !covered {
				r = r.withDifference("PodTolerationRestriction and, for ephemeral containers, " +
					"ServiceAccount have the status 403")
			}
			requests = append(requests, r)
		}
	}
	return append(requests, podIn("d", "containers: [{name: c, image: good, resources: {requests: {cpu: '1'}}}]"),
		podIn("d", "containers: [{name: c, image: good, resources: {limits: {example.com/gpu: '1'}}}]"),
		podIn("d", "resources: {}, containers: [{name: c, image: good, resources: {requests: {cpu: '1'}}}]"),
		podIn("d", "resources: {requests: {cpu: '1'}}, "+goodContainer))
}

func podSecurityRequests() []request {
	requests := []request{}
	for _, shape := range []string{shapes[0], shapes[7], shapes[8], shapes[9], shapes[10], shapes[31],
		"runtimeClassName: vm, " + shapes[7]} {
		for _, namespace := range []string{"d", "free", "strict"} {
			requests = append(requests, podIn(namespace, shape), podIn(namespace, shape).asUser("exempted system:masters"),
				create("/apis/batch/v1/namespaces/"+namespace+"/jobs"+dryRun,
					`{kind: Job, apiVersion: batch/v1, metadata: {name: x},
spec: {template: {spec: {restartPolicy: Never, `+shape+`}}}}`))
		}
	}
	for _, labels := range []string{"enforce: baseline", "enforce: restricted", "enforce: privileged", "warn: none",
		"audit-version: v1.99", "enforce-version: x"} {
		requests = append(requests, patch("merge", namespaces+"/d"+dryRun,
			"metadata: {labels: {pod-security.kubernetes.io/"+
				labels+"}}"))
	}
	return requests
}

func limitedResourceRequests() []request {
	claim := func(namespace, class string) request {
		return create("/api/v1/namespaces/"+namespace+"/persistentvolumeclaims"+dryRun, `{kind: PersistentVolumeClaim,
apiVersion: v1, metadata: {name: x}, spec: {`+class+` accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	}
	service := func(namespace, kind string) request {
		return create("/api/v1/namespaces/"+namespace+"/services"+dryRun,
			"{kind: Service, apiVersion: v1, metadata: {name: x}, spec: {type: "+kind+", ports: [{port: 80}]}}")
	}
	const (
		scopes = "by the scopes of `limitedResources` of ResourceQuota's configuration have the status 403"
		quota  = "/api/v1/namespaces/free/resourcequotas"
	)
	highPod := podIn("free", "priorityClassName: high, "+goodContainer)
	waiting := highPod
	waiting.until = "201 "
	return []request{
		claim("d", ""), claim("d", "storageClassName: '',"), claim("d", "storageClassName: usual,"),
		claim("limited", "storageClassName: grows,"), service("d", "LoadBalancer"), service("d", "ClusterIP"),
		service("d", "NodePort"), service("limited", "LoadBalancer"), highPod.withDifference(scopes),
		podIn("d", "priorityClassName: high, "+goodContainer).withDifference(scopes),
		create(quota, `{kind: ResourceQuota, apiVersion: v1, metadata: {name: high}, spec: {hard: {pods: "2"},
scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}`),
		// In Kubernetes a controller says what is used, before anything is admitted.
		patch("merge", quota+"/high/status", `status: {hard: {pods: "2"}, used: {pods: "0"}}`).
			withDifference("knows a new quota's usage when it is created"),
		waiting, podIn("free", "containers: [{name: c, image: good}]"),
		create("/api/v1/namespaces/free/pods",
			`{kind: Pod, apiVersion: v1, metadata: {name: high}, spec: {priorityClassName: high,
`+goodContainer+`}}`),
		get(quota + "/high").withDifference("knows a new quota's usage when it is created"),
	}
}

func provisionRequests() []request {
	const fresh = "/api/v1/namespaces/fresh"
	return []request{
		create(fresh+"/configmaps"+dryRun, "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"), get(fresh),
		create(fresh+"/configmaps", "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"), get(fresh),
		deleteRequest("/api/v1/namespaces/fresh-2/configmaps/c", ""), get("/api/v1/namespaces/fresh-2"),
		create("/api/v1/namespaces/D_/configmaps", "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"),
	}
}
