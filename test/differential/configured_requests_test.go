package differential

import (
	"fmt"
	"slices"
	"strings"
)

// ofConfigured are requests that are decided by plugins' configuration.
func ofConfigured() []request { return slices.Concat(ofConfiguration(), ofProvision()) }

// ofConfiguration are those of them that don't need NamespaceAutoProvision.
func ofConfiguration() []request {
	return slices.Concat(spaces(), ofImages(), ofSelectors(), ofTolerations(), ofSecurity(), ofLimitedResources())
}

// in is a pod that is only tried, in a namespace.
func in(namespace, spec string) request {
	return create("/api/v1/namespaces/"+namespace+"/pods"+dry, `{kind: Pod, apiVersion: v1, metadata: {name: x,
annotations: {a.image-policy.k8s.io/b: c, d: e}}, spec: {`+spec+"}}")
}

const goodContainer = "containers: [{name: c, image: good}]"

// spaces are namespaces that the configuration or an annotation says something of. The last request
// waits for a cache.
func spaces() []request {
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
	ready := in("d", "runtimeClassName: vm, "+goodContainer)
	ready.until = `"vm": "yes"`
	return append(requests, ready)
}

func ofImages() []request {
	const pod = pods + "/images"
	requests := []request{
		create(pods, "{kind: Pod, apiVersion: v1, metadata: {name: images}, spec: {"+goodContainer+"}}"),
		patch("strategic", pod, "spec: {containers: [{name: c, image: bad}]}"),
		patch("strategic", pod, "spec: {containers: [{name: c, image: worse}]}"),
		patch("strategic", pod+"/ephemeralcontainers", "spec: {ephemeralContainers: [{name: e, image: bad}]}"),
		patch("strategic", pod+"/ephemeralcontainers", "spec: {ephemeralContainers: [{name: e, image: good}]}"),
		patch("merge", pod+"/status", "status: {phase: Running}"),
		patch("merge", pod, "metadata: {labels: {l: '1'}}"),
		create("/apis/apps/v1/namespaces/d/deployments"+dry,
			`{kind: Deployment, apiVersion: apps/v1, metadata: {name: x},
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: bad}]}}}}`),
		remove(pod, "{gracePeriodSeconds: 0}"),
	}
	for _, image := range []string{"good", "bad", "worse"} {
		requests = append(requests, in("d", "containers: [{name: c, image: "+image+"}]"),
			in("d", "initContainers: [{name: i, image: "+image+"}], "+goodContainer),
			in("free", "containers: [{name: b, image: good}, {name: c, image: "+image+"}]"))
	}
	return append(requests, in("d", "containers: [{name: c, image: broken}]").
		unlike("says in every refusal that the backend failed where it did"))
}

func ofSelectors() []request {
	requests := []request{}
	for _, namespace := range []string{"d", "whitelisted", "bound"} {
		for _, selector := range []string{"", "zone: usual", "zone: a", "zone: b", "disk: ssd", "zone: a, disk: ssd",
			"other: x"} {
			requests = append(requests, in(namespace, "nodeSelector: {"+selector+"}, "+goodContainer))
		}
	}
	return requests
}

func ofTolerations() []request {
	requests := []request{}
	for _, namespace := range []string{"d", "own-whitelist", "own-default", "nothing-allowed"} {
		for _, tolerations := range []string{"", "{key: given, operator: Exists, effect: NoSchedule}",
			"{key: allowed, operator: Exists}", "{key: allowed, value: x}", "{key: forbidden, operator: Exists}",
			"{operator: Exists}"} {
			r := in(namespace, "tolerations: ["+tolerations+"], "+goodContainer)
			covered := tolerations == "" || strings.Contains(tolerations, "allowed") ||
				strings.Contains(tolerations, "given")
			if (namespace == "d" || namespace == "own-default") && !covered {
				r = r.unlike("PodTolerationRestriction and, for ephemeral containers, " +
					"ServiceAccount have the status 403")
			}
			requests = append(requests, r)
		}
	}
	return append(requests, in("d", "containers: [{name: c, image: good, resources: {requests: {cpu: '1'}}}]"),
		in("d", "containers: [{name: c, image: good, resources: {limits: {example.com/gpu: '1'}}}]"))
}

func ofSecurity() []request {
	requests := []request{}
	for _, shape := range []string{shapes[0], shapes[7], shapes[8], shapes[9], shapes[10], shapes[31],
		"runtimeClassName: vm, " + shapes[7]} {
		for _, namespace := range []string{"d", "free", "strict"} {
			requests = append(requests, in(namespace, shape), in(namespace, shape).by("exempted system:masters"),
				create("/apis/batch/v1/namespaces/"+namespace+"/jobs"+dry,
					`{kind: Job, apiVersion: batch/v1, metadata: {name: x},
spec: {template: {spec: {restartPolicy: Never, `+shape+`}}}}`))
		}
	}
	for _, labels := range []string{"enforce: baseline", "enforce: restricted", "enforce: privileged", "warn: none",
		"audit-version: v1.99", "enforce-version: x"} {
		requests = append(requests, patch("merge", namespaces+"/d"+dry,
			"metadata: {labels: {pod-security.kubernetes.io/"+
				labels+"}}"))
	}
	return requests
}

func ofLimitedResources() []request {
	claim := func(namespace, class string) request {
		return create("/api/v1/namespaces/"+namespace+"/persistentvolumeclaims"+dry, `{kind: PersistentVolumeClaim,
apiVersion: v1, metadata: {name: x}, spec: {`+class+` accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	}
	service := func(namespace, kind string) request {
		return create("/api/v1/namespaces/"+namespace+"/services"+dry,
			"{kind: Service, apiVersion: v1, metadata: {name: x}, spec: {type: "+kind+", ports: [{port: 80}]}}")
	}
	const (
		scopes = "by the scopes of `limitedResources` of ResourceQuota's configuration have the status 403"
		quota  = "/api/v1/namespaces/free/resourcequotas"
	)
	highPod := in("free", "priorityClassName: high, "+goodContainer)
	waiting := highPod
	waiting.until = "201 "
	return []request{
		claim("d", ""), claim("d", "storageClassName: '',"), claim("d", "storageClassName: usual,"),
		claim("limited", "storageClassName: grows,"), service("d", "LoadBalancer"), service("d", "ClusterIP"),
		service("d", "NodePort"), service("limited", "LoadBalancer"), highPod.unlike(scopes),
		in("d", "priorityClassName: high, "+goodContainer).unlike(scopes),
		create(quota, `{kind: ResourceQuota, apiVersion: v1, metadata: {name: high}, spec: {hard: {pods: "2"},
scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}`),
		// In Kubernetes a controller says what is used, before anything is admitted.
		patch("merge", quota+"/high/status", `status: {hard: {pods: "2"}, used: {pods: "0"}}`).
			unlike("knows a new quota's usage when it is created"),
		waiting, in("free", "containers: [{name: c, image: good}]"),
		create("/api/v1/namespaces/free/pods",
			`{kind: Pod, apiVersion: v1, metadata: {name: high}, spec: {priorityClassName: high,
`+goodContainer+`}}`),
		get(quota + "/high").unlike("knows a new quota's usage when it is created"),
	}
}

func ofProvision() []request {
	const fresh = "/api/v1/namespaces/fresh"
	return []request{
		create(fresh+"/configmaps"+dry, "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"), get(fresh),
		create(fresh+"/configmaps", "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"), get(fresh),
		remove("/api/v1/namespaces/fresh-2/configmaps/c", ""), get("/api/v1/namespaces/fresh-2"),
		create("/api/v1/namespaces/D_/configmaps", "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"),
	}
}
