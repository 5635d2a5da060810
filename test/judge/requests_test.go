// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"fmt"
	"strings"
)

// A write is a request that is sent.
type write struct {
	method, path, contentType, body string
	// user is a name, and groups after it; empty for the administrator.
	user string
}

const (
	dryRun  = "?dryRun=All"
	dev     = "dev writers"
	jane    = "jane writers"
	kubelet = "system:node:a system:nodes system:authenticated"
)

func create(path, body string) write { return write{method: "POST", path: path, body: body} }
func put(path, body string) write    { return write{method: "PUT", path: path, body: body} }
func remove(path, options string) write {
	return write{method: "DELETE", path: path, body: options}
}

// patch sends a patch of a type: merge, strategic, json or apply.
func patch(kind, path, body string) write {
	w := write{method: "PATCH", path: path, body: body, contentType: map[string]string{
		"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json",
		"json": "application/json-patch+json", "apply": "application/apply-patch+yaml"}[kind]}
	if kind == "apply" {
		w.path += "?fieldManager=t&force=true"
	}
	return w
}

func (w write) as(user string) write {
	w.user = user
	return w
}

// shapes are specs of pods, most of which a plugin or a policy has something to do with.
var shapes = []string{
	`containers: [{name: c, image: i}]`,
	`containers: [{name: c, image: i, resources: {requests: {cpu: "1"}, limits: {cpu: "2", memory: 1Gi}}}]`,
	`containers: [{name: c, image: i, resources: {limits: {example.com/gpu: "1"}}}]`,
	`containers: [{name: c, image: i, securityContext: {privileged: true}}]`,
	`containers: [{name: c, image: i}, {name: d, image: j, imagePullPolicy: Never}]`,
	`hostNetwork: true, containers: [{name: c, image: i}]`,
	`volumes: [{name: v, hostPath: {path: /}}], containers: [{name: c, image: i}]`,
	`initContainers: [{name: i, image: i, restartPolicy: Always}], containers: [{name: c, image: i}]`,
	`runtimeClassName: vm, containers: [{name: c, image: i}]`,
	`runtimeClassName: vm, nodeSelector: {vm: "no"}, containers: [{name: c, image: i}]`,
	`runtimeClassName: none, containers: [{name: c, image: i}]`,
	`priorityClassName: high, containers: [{name: c, image: i}]`,
	`priorityClassName: none, containers: [{name: c, image: i}]`,
	`priority: 5, containers: [{name: c, image: i}]`,
	`serviceAccountName: quiet, containers: [{name: c, image: i}]`,
	`serviceAccountName: none, containers: [{name: c, image: i}]`,
	`automountServiceAccountToken: false, containers: [{name: c, image: i}]`,
	`nodeName: a, containers: [{name: c, image: i}]`,
	`tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}], containers: [{name: c, image: i}]`,
	`containers: [{name: C_, image: i}]`,
	`containers: []`,
	`securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: i,
securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`,
	`affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone,
labelSelector: {matchLabels: {a: b}}}]}}, containers: [{name: c, image: i}]`,
}

// writes returns all requests, in order. Later ones are about objects of earlier ones.
func writes() []write {
	var all []write
	for _, some := range [][]write{podWrites(), workloadWrites(), mapWrites(), customWrites(), otherWrites(),
		kubeletWrites()} {
		all = append(all, some...)
	}
	return all
}

func podWrites() []write {
	var all []write
	for i, shape := range shapes {
		name := fmt.Sprint("p", i)
		pod := "{kind: Pod, apiVersion: v1, metadata: {name: " + name + "}, spec: {" + shape + "}}"
		one := shop + "/pods/" + name
		all = append(all,
			create(core+"/namespaces/secured/pods"+dryRun, pod),
			create(core+"/namespaces/warned/pods"+dryRun, pod).as(dev),
			create(core+"/namespaces/limited/pods"+dryRun, pod),
			create(shop+"/pods"+dryRun, pod).as(jane),
			create(shop+"/pods", pod).as(dev),
			patch("merge", one, `metadata: {labels: {l: "1"}}`).as(dev),
			patch("strategic", one, `spec: {containers: [{name: c, image: j}]}`),
			patch("json", one, `[{op: replace, path: /spec/containers/0/image, value: k}]`).as(dev),
			patch("strategic", one+"/ephemeralcontainers", `spec: {ephemeralContainers: [{name: e, image: i}]}`).as(dev),
			patch("strategic", one+"/ephemeralcontainers", `spec: {ephemeralContainers: [{name: e, image: debug}]}`),
			patch("strategic", one+"/ephemeralcontainers", `spec: {ephemeralContainers: [{name: f, image: debug}]}`),
			patch("merge", one+"/status", `status: {phase: Running}`),
			patch("apply", one, "{kind: Pod, apiVersion: v1, metadata: {name: "+name+", labels: {a: b}}}").as(dev),
			remove(one+dryRun, "").as(dev),
			create(one+"/eviction"+dryRun, "{kind: Eviction, apiVersion: policy/v1, metadata: {name: "+name+"}}").as(dev),
			create(one+"/exec?command=sh&stdout=true", "").as(dev),
			create(one+"/attach?stdout=true", "").as(jane),
		)
	}
	bind := func(node string) string {
		return "{kind: Binding, apiVersion: v1, metadata: {name: p0}, target: {kind: Node, name: " + node + "}}"
	}
	bare := "{kind: Pod, apiVersion: v1, metadata: {generateName: random-}, spec: {" + shapes[0] + "}}"
	return append(all,
		create(shop+"/pods/p0/binding", bind("b")),
		create(shop+"/pods/p0/binding", bind("a")),
		create(shop+"/pods", bare),
		create(shop+"/pods", bare).as(dev),
		patch("merge", shop+"/pods/p4", `metadata: {labels: {protected: "yes"}}`),
		remove(shop+"/pods/p4", ""),
		remove(shop+"/pods/p1", "{gracePeriodSeconds: 0}"),
		patch("apply", shop+"/pods/applied", "{kind: Pod, apiVersion: v1, metadata: {name: applied}, spec: {"+shapes[0]+"}}"),
		create(shop+"/pods/p5/eviction", "{kind: Eviction, apiVersion: policy/v1, metadata: {name: p5}, "+
			"deleteOptions: {dryRun: [All]}}"),
	)
}

func workloadWrites() []write {
	var all []write
	for _, kind := range []string{"Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"} {
		path := strings.ToLower(kind) + "s"
		for i, shape := range []string{shapes[0], shapes[3], shapes[8], shapes[20]} {
			name, more := fmt.Sprint("w", i), ""
			if kind == "StatefulSet" {
				more = "serviceName: s, "
			}
			if kind != "DaemonSet" {
				more += fmt.Sprintf("replicas: %d, ", i*2)
			}
			workload := "{kind: " + kind + ", apiVersion: apps/v1, metadata: {name: " + name + "}, spec: {" + more +
				"selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + shape + "}}}}"
			one := apps + "/" + path + "/" + name
			all = append(all,
				create("/apis/apps/v1/namespaces/secured/"+path+dryRun, workload),
				create(apps+"/"+path, workload).as(dev),
				patch("strategic", one, "metadata: {labels: {l: '1'}}").as(dev),
				patch("merge", one, "spec: {template: {metadata: {labels: {a: c}}}}"),
				patch("apply", one, workload).as(dev),
			)
			if kind != "DaemonSet" {
				all = append(all,
					patch("merge", one+"/scale", "spec: {replicas: 2}").as(dev),
					patch("merge", one+"/scale", "spec: {replicas: 9}").as(dev),
					put(one+"/scale", "{kind: Scale, apiVersion: autoscaling/v1, metadata: {name: "+name+
						", namespace: shop}, spec: {replicas: 1}}"),
				)
			}
			all = append(all, remove(one, "{propagationPolicy: Background}").as(dev))
		}
	}
	return all
}

func mapWrites() []write {
	const maps = shop + "/configmaps"
	configMap := func(name, metadata, data string) string {
		return "{kind: ConfigMap, apiVersion: v1, metadata: {name: " + name + ", " + metadata + "}, data: {" + data + "}}"
	}
	return []write{
		create(maps, configMap("a", "labels: {owner: dev}", "a: b")).as(dev),
		put(maps+"/a", configMap("a", "labels: {owner: dev}", "a: c")).as(dev),
		put(maps+"/a", configMap("a", "labels: {owner: jane}", "a: d")).as(jane),
		patch("merge", maps+"/a", "metadata: {labels: {owner: null}}"),
		patch("json", maps+"/a", "[{op: add, path: /data/x, value: 'y'}]").as(jane),
		create(maps, configMap("reader", "labels: {reads: 'yes'}", "")).as(dev),
		create(maps, configMap("reader", "labels: {reads: 'yes'}", "")),
		patch("merge", maps+"/reader", "data: {k: v}").as(jane),
		create(maps+dryRun, configMap("dry", "", "")),
		create(maps, configMap("dry", "", "")),
		create(maps, configMap("failing", "", "")),
		create(maps, configMap("failing", "", "must: be")),
		patch("merge", maps+"/a", "metadata: {labels: {protected: 'yes'}}"),
		remove(maps+"/a", "").as(dev),
		remove(maps+"/reader", "{propagationPolicy: Foreground}").as(dev),
		patch("apply", maps+"/applied", configMap("applied", "", "k: v")).as(dev),
		patch("apply", maps+"/applied", configMap("applied", "labels: {x: y}", "k: w")).as(jane),
		create(maps, configMap("owned", "ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: u, "+
			"blockOwnerDeletion: true}]", "")).as(dev),
		create(maps, configMap("owned", "ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: u, "+
			"blockOwnerDeletion: true}]", "")).as(dev),
		create(maps, "{kind: ConfigMap, apiVersion: v1, metadata: {generateName: generated-}}").as(dev),
		create(maps, configMap("Invalid_", "", "")),
		create(core+"/namespaces/none/configmaps", configMap("x", "", "")),
		remove(maps+"?labelSelector=l%3Dnone", ""),
	}
}

func customWrites() []write {
	widget := func(name, spec, more string) string {
		return "{kind: Widget, apiVersion: example.com/v1, metadata: {name: " + name + "}, spec: {" + spec + "}" + more + "}"
	}
	return []write{
		create(widgets, widget("a", "size: 3", "")).as(dev),
		create(widgets, widget("b", "", ", status: {note: bad}")).as(dev),
		create(widgets, widget("c", "size: 11", "")).as(jane),
		create(widgets, widget("d", "size: 8", "")),
		create(widgets, widget("e", "size: 8, color: blue", "")),
		create(widgets, widget("f", "size: 101", "")),
		create(widgets, widget("g", "size: 1, min: 2", "")),
		create(widgets, "{kind: Widget, apiVersion: example.com/v1, metadata: {generateName: generated-}, spec: {size: 2}}"),
		patch("merge", widgets+"/a", "spec: {size: 4}").as(dev),
		patch("merge", widgets+"/a", "spec: {size: 12}").as(dev),
		patch("merge", widgets+"/a", "{spec: {size: 5}, status: {note: bad}}").as(jane),
		patch("json", widgets+"/a", "[{op: remove, path: /spec/color}]"),
		patch("json", widgets+"/a", "[{op: add, path: /spec/min, value: 50}]"),
		patch("apply", widgets+"/a", widget("a", "size: 6", "")),
		patch("apply", widgets+"/new", widget("new", "size: 6", "")).as(dev),
		patch("merge", widgets+"/a/status", "status: {note: good, size: 1}"),
		patch("merge", widgets+"/a/status", "status: {note: bad}").as(dev),
		patch("merge", widgets+"/a/status", "spec: {size: 90}").as(dev),
		patch("merge", widgets+"/a/scale", "spec: {replicas: 7}").as(dev),
		patch("merge", widgets+"/a/scale", "spec: {replicas: 2}").as(dev),
		patch("merge", widgets+"/a", "metadata: {labels: {protected: 'yes'}}"),
		remove(widgets+"/a", "").as(dev),
		remove(widgets+"/d", "").as(dev),
	}
}

func otherWrites() []write {
	const services, claims = shop + "/services", shop + "/persistentvolumeclaims"
	const ingresses = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses"
	service := func(name, spec string) string {
		return "{kind: Service, apiVersion: v1, metadata: {name: " + name + "}, spec: {" + spec + "ports: [{port: 80}]}}"
	}
	claim := func(name, spec string) string {
		return "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: " + name + "}, spec: {" + spec +
			" accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
	}
	ingress := func(name, spec string) string {
		return "{kind: Ingress, apiVersion: networking.k8s.io/v1, metadata: {name: " + name + "}, spec: {" + spec +
			"defaultBackend: {service: {name: s, port: {number: 80}}}}}"
	}
	more := "spec: {resources: {requests: {storage: 2Gi}}}"
	return []write{
		create(services, service("s", "")).as(dev),
		create(services, service("j", "")).as(jane),
		create(services, service("e", "externalIPs: [192.0.2.1], ")).as(dev),
		create(services, service("l", "type: LoadBalancer, ")),
		create(services, service("n", "type: NodePort, ")).as(dev),
		create(services, "{kind: Service, apiVersion: v1, metadata: {name: x}, spec: {type: ExternalName, externalName: a.b}}"),
		create(services, "{kind: Service, apiVersion: v1, metadata: {name: n0}, spec: {}}"),
		create(core+"/namespaces/warned/services"+dryRun, service("j", "")).as(jane),
		patch("merge", services+"/s", "spec: {externalIPs: [192.0.2.1]}").as(dev),
		patch("merge", services+"/s", "spec: {sessionAffinity: ClientIP}").as(dev),
		patch("merge", services+"/s", "spec: {sessionAffinity: None}").as(jane),
		remove(services+"/s", "").as(jane),
		remove(services+"/s", "").as(dev),
		create(claims, claim("a", "")).as(dev),
		create(claims, claim("b", "storageClassName: grows, volumeName: v,")),
		create(claims, claim("c", "storageClassName: '',")),
		create(core+"/namespaces/limited/persistentvolumeclaims"+dryRun, claim("l", "")),
		create(core+"/namespaces/limited/persistentvolumeclaims"+dryRun, strings.Replace(claim("l", ""), "1Gi", "9Gi", 1)),
		patch("merge", claims+"/a", more),
		patch("merge", claims+"/b/status", "status: {phase: Bound, capacity: {storage: 1Gi}}"),
		patch("merge", claims+"/b", more).as(dev),
		remove(claims+"/c", ""),
		create(ingresses, ingress("a", "")).as(dev),
		create(ingresses, ingress("b", "ingressClassName: other, ")),
		patch("merge", ingresses+"/a", "metadata: {labels: {l: '1'}}"),
		create(core+"/namespaces", "{kind: Namespace, apiVersion: v1, metadata: {name: another}}"),
		create(core+"/namespaces", `{kind: Namespace, apiVersion: v1, metadata: {name: wrong,
labels: {pod-security.kubernetes.io/enforce: strict}}}`),
		patch("merge", core+"/namespaces/secured", "metadata: {labels: {pod-security.kubernetes.io/enforce: none}}"),
		patch("merge", core+"/namespaces/another", "metadata: {labels: {l: '1'}}"),
		remove(core+"/namespaces/default", ""),
		remove(core+"/namespaces/kube-system", ""),
		create("/apis/scheduling.k8s.io/v1/priorityclasses"+dryRun,
			"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: second}, value: 5, globalDefault: true}"),
		create("/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
			"{kind: PodDisruptionBudget, apiVersion: policy/v1, metadata: {name: d}, spec: {minAvailable: 1}}").as(dev),
		create("/apis/batch/v1/namespaces/shop/jobs", `{kind: Job, apiVersion: batch/v1, metadata: {name: j}, spec: {
template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`),
		create("/apis/batch/v1/namespaces/shop/cronjobs", `{kind: CronJob, apiVersion: batch/v1, metadata: {name: j}, spec: {
schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`),
		create(core+"/namespaces/shop/serviceaccounts/quiet/token",
			"{kind: TokenRequest, apiVersion: authentication.k8s.io/v1, spec: {expirationSeconds: 600}}"),
	}
}

func kubeletWrites() []write {
	mirror := func(name, node string) string {
		return "{kind: Pod, apiVersion: v1, metadata: {name: " + name + ", annotations: {kubernetes.io/config.mirror: h}, " +
			"ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: u, controller: true}]}, " +
			"spec: {nodeName: " + node + ", containers: [{name: c, image: i}]}}"
	}
	all := []write{
		create(core+"/nodes", "{kind: Node, apiVersion: v1, metadata: {name: c}}"),
		create(core+"/nodes", "{kind: Node, apiVersion: v1, metadata: {name: a, labels: {node-restriction.kubernetes.io/x: y}}}"),
		patch("merge", core+"/nodes/a", "metadata: {labels: {node-restriction.kubernetes.io/x: y}}"),
		patch("merge", core+"/nodes/a", "metadata: {labels: {kubernetes.io/os: linux}}"),
		patch("merge", core+"/nodes/a", "spec: {taints: [{key: k, effect: NoSchedule}]}"),
		patch("merge", core+"/nodes/a/status", "status: {capacity: {cpu: '4'}}"),
		create(shop+"/pods", "{kind: Pod, apiVersion: v1, metadata: {name: k}, spec: {nodeName: a, "+shapes[0]+"}}"),
		create(shop+"/pods", mirror("m", "a")),
		create(shop+"/pods", mirror("n", "b")),
		patch("merge", shop+"/pods/on-a/status", "status: {phase: Failed}"),
		patch("merge", shop+"/pods/on-b/status", "status: {phase: Failed}"),
		patch("merge", shop+"/pods/on-a/status", "metadata: {labels: {l: '1'}}"),
		create(shop+"/pods/on-b/eviction"+dryRun, "{kind: Eviction, apiVersion: policy/v1, metadata: {name: on-b}}"),
		create(shop+"/pods/on-a/eviction"+dryRun, "{kind: Eviction, apiVersion: policy/v1, metadata: {name: on-a}}"),
		create(core+"/namespaces/shop/serviceaccounts/quiet/token",
			"{kind: TokenRequest, apiVersion: authentication.k8s.io/v1, spec: {expirationSeconds: 600}}"),
		remove(shop+"/pods/on-b"+dryRun, "{gracePeriodSeconds: 0}"),
		remove(shop+"/pods/on-a"+dryRun, "{gracePeriodSeconds: 0}"),
	}
	for i := range all {
		all[i].user = kubelet
	}
	return all
}
